import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.BufferedOutputStream;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.function.BiConsumer;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyQueryMetadata;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.InvalidStateStorePartitionException;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.errors.UnknownStateStoreException;
import org.apache.kafka.streams.kstream.Aggregator;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig;
import org.apache.kafka.streams.kstream.TableJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.query.StateQueryRequest;
import org.apache.kafka.streams.query.VersionedKeyQuery;
import org.apache.kafka.streams.state.HostInfo;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.QueryableStoreType;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import org.apache.kafka.streams.state.ReadOnlySessionStore;
import org.apache.kafka.streams.state.ReadOnlyWindowStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;

/**
 * Orders, inventory and customers in; totals and enriched orders out. One of every kind of state Kafka Streams knows, so that one of every kind of
 * internal topic exists. Everything that differs between two deployments is an environment variable; run it with the Kafka Streams jars on the class
 * path: {@code java -cp 'jars/*' OrderProcessing.java}. Compiled, it starts in a quarter of the processor time.
 *
 * <p>Final results depend on the set of orders only, never on how partitions interleave: sums commute, windows accept records of any age the
 * generator makes, and a join ends with the last value of each side.
 */
public class OrderProcessing {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Duration KEPT = Duration.ofDays(2);
  private static final int COMMIT_INTERVAL_MS = Integer.parseInt(env("COMMIT_INTERVAL_MS", "100"));

  public static void main(String[] arguments) throws Exception {
    System.setProperty("org.slf4j.simpleLogger.defaultLogLevel", env("LOG_LEVEL", "warn"));
    System.setProperty("org.slf4j.simpleLogger.log.org.apache.kafka.streams.processor.internals.StoreChangelogReader", "info");
    System.setProperty("org.slf4j.simpleLogger.showDateTime", "true");
    Topology topology = topology().build();
    KafkaStreams streams = new KafkaStreams(topology, settings());
    streams.setStateListener((now, before) -> log("state " + before + " -> " + now));
    streams.setUncaughtExceptionHandler(error -> {
      log("failed: " + error);
      error.printStackTrace(System.out);
      return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
    });
    Restoring restoring = new Restoring();
    streams.setGlobalStateRestoreListener(restoring);
    Control control = new Control(streams, topology, restoring);
    HttpServer server = HttpServer.create(new InetSocketAddress(env("HTTP_HOST", "127.0.0.1"), Integer.parseInt(env("HTTP_PORT", "18081"))), 0);
    server.createContext("/", control::handle);
    server.setExecutor(Executors.newFixedThreadPool(4));
    // Whoever stops this takes exit status 143 for a clean end: that is what Java ends with when its hooks have run, so one that did not close says 1.
    Runtime.getRuntime().addShutdownHook(new Thread(() -> {
      boolean clean = closed(streams);
      log(clean ? "closed" : "did not close in time");
      server.stop(0);
      if (!clean) {
        Runtime.getRuntime().halt(1);
      }
    }));
    streams.start();
    server.start();
    while (streams.state() != KafkaStreams.State.ERROR) {
      Thread.sleep(200);
    }
    Runtime.getRuntime().halt(1);
  }

  /** Closes, unless it is closed already. True when everything was flushed and committed. */
  private static boolean closed(KafkaStreams streams) {
    // For one that has failed, close() returns true too.
    return streams.close(Duration.ofSeconds(Long.parseLong(env("CLOSE_SECONDS", "30")))) && streams.state() == KafkaStreams.State.NOT_RUNNING;
  }

  private static Properties settings() throws IOException {
    Properties settings = new Properties();
    String extra = env("KAFKA_CLIENT_PROPERTIES", "");
    if (!extra.isEmpty()) {
      try (FileInputStream file = new FileInputStream(extra)) {
        settings.load(file);
      }
    }
    int session = Integer.parseInt(env("SESSION_TIMEOUT_MS", "6000"));
    settings.put("application.id", env("APPLICATION_ID", "order-processor"));
    settings.put("bootstrap.servers", env("BOOTSTRAP_SERVERS", "127.0.0.1:9092"));
    settings.put("state.dir", env("STATE_DIR", "state"));
    settings.put("processing.guarantee", env("PROCESSING_GUARANTEE", "exactly_once_v2"));
    settings.put("commit.interval.ms", COMMIT_INTERVAL_MS);
    settings.put("num.stream.threads", env("NUM_STREAM_THREADS", "1"));
    String protocol = env("GROUP_PROTOCOL", "classic");
    settings.put("group.protocol", protocol);
    if (protocol.equals("classic")) {
      // In groups of the newer protocols the broker decides about both.
      settings.put("session.timeout.ms", session);
      settings.put("heartbeat.interval.ms", session / 3);
    }
    settings.put("replication.factor", env("REPLICATION_FACTOR", "-1"));
    settings.put("num.standby.replicas", env("NUM_STANDBY_REPLICAS", "0"));
    // Any lag is acceptable, so no instance warms up a task that another one has: those are standby tasks too, and Kafka Streams 4.3.1 can die of
    // them when it is resumed after a pause (KAFKA-20731).
    settings.put("acceptable.recovery.lag", env("ACCEPTABLE_RECOVERY_LAG", Long.toString(Long.MAX_VALUE)));
    // A static member keeps its place in the group over a restart: it does not leave when it is closed.
    if (!env("GROUP_INSTANCE_ID", "").isEmpty()) {
      settings.put("group.instance.id", env("GROUP_INSTANCE_ID", ""));
    }
    // Where this instance is asked, so that each of them can say which one has a key.
    String host = env("HTTP_HOST", "127.0.0.1");
    settings.put("application.server", env("APPLICATION_SERVER", (host.contains(":") ? "[" + host + "]" : host) + ":" + env("HTTP_PORT", "18081")));
    settings.put("auto.offset.reset", "earliest");
    settings.put("default.key.serde", Serdes.StringSerde.class);
    settings.put("default.value.serde", Serdes.StringSerde.class);
    return settings;
  }

  private static StreamsBuilder topology() {
    Serde<String> text = Serdes.String();
    Serde<JsonNode> json = Serdes.serdeFrom(new ToBytes(), new FromBytes());
    Consumed<String, JsonNode> keyed = Consumed.with(text, json);
    StreamsBuilder builder = new StreamsBuilder();

    KStream<String, JsonNode> orders = builder.stream(env("ORDERS_TOPIC", "orders"), keyed.withName("orders"));
    KTable<String, JsonNode> inventory =
        builder.table(env("INVENTORY_TOPIC", "inventory"), Consumed.with(text, json).withName("inventory"), Materialized.as("inventory"));
    GlobalKTable<String, JsonNode> customers = builder.globalTable(env("CUSTOMERS_TOPIC", "customers"), Consumed.with(text, json).withName("customers"));
    KGroupedStream<String, JsonNode> byCustomer = orders.groupByKey(Grouped.with("by-customer", text, json));

    // Without a cache each order has its total among the results, so that one that is missing, or there twice, is seen.
    byCustomer
        .aggregate(OrderProcessing::nothing, SUM, Named.as("sum-totals"), kept("order-totals", text, json).withCachingDisabled())
        .toStream(Named.as("totals-out"))
        .to(env("CUSTOMER_TOTALS_TOPIC", "customer-totals"), Produced.with(text, json));

    KTable<String, JsonNode> latest = byCustomer.reduce((before, now) -> now, Named.as("keep-latest"), kept("latest-orders", text, json));
    latest
        .join(inventory, order -> order.get("product").asText(), OrderProcessing::enriched, TableJoined.as("enrich"), kept("enriched-orders", text, json))
        .toStream(Named.as("enriched-out"))
        .to(env("ENRICHED_ORDERS_TOPIC", "enriched-orders"), Produced.with(text, json));

    orders
        .join(customers, (customer, order) -> customer, (order, customer) -> with(order, "region", customer.get("region")), Named.as("find-region"))
        .groupBy((customer, order) -> order.get("region").asText(), Grouped.with("by-region", text, json))
        .aggregate(OrderProcessing::nothing, SUM, Named.as("sum-regions"), kept("region-totals", text, json));
    orders
        .groupBy((customer, order) -> order.get("product").asText(), Grouped.with("by-product", text, json))
        .aggregate(OrderProcessing::nothing, SUM, Named.as("sum-products"), kept("product-sales", text, json));

    byCustomer
        .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMinutes(1), Duration.ofDays(1)))
        .count(Named.as("count-minutes"), Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("orders-per-minute").withRetention(KEPT));
    byCustomer
        .windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofMinutes(5), Duration.ofDays(1)))
        .count(Named.as("count-sessions"), Materialized.<String, Long, SessionStore<Bytes, byte[]>>as("order-sessions").withRetention(KEPT));
    byCustomer
        .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMinutes(10), Duration.ZERO))
        .count(Named.as("count-final"), Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("order-counts").withRetention(KEPT))
        .suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded()).withName("order-counts-suppress"))
        .toStream(Named.as("final-out"))
        .map((window, count) -> new org.apache.kafka.streams.KeyValue<>(windowName(window), count.toString()), Named.as("name-windows"))
        .to(env("ORDER_COUNTS_FINAL_TOPIC", "order-counts-final"), Produced.with(text, text));

    // For tests of the cut: state that moves by the clock alone, two stores in one step.
    if (!env("TICK_MS", "").isEmpty()) {
      orders.process(new Ticking(), Named.as("tick"));
    }

    orders.toTable(
        Named.as("keep-versions"),
        Materialized.<String, JsonNode>as(Stores.persistentVersionedKeyValueStore("order-versions", KEPT)).withKeySerde(text).withValueSerde(json));
    return builder;
  }

  private static final Aggregator<String, JsonNode, JsonNode> SUM = (key, order, sum) -> {
    ObjectNode next = JSON.createObjectNode();
    next.put("count", sum.get("count").asLong() + 1);
    next.put("cents", sum.get("cents").asLong() + order.get("cents").asLong());
    return next;
  };

  private static JsonNode nothing() {
    return JSON.createObjectNode().put("count", 0L).put("cents", 0L);
  }

  private static JsonNode enriched(JsonNode order, JsonNode product) {
    return with(with(order, "name", product.get("name")), "stock", product.get("stock"));
  }

  private static JsonNode with(JsonNode value, String field, JsonNode added) {
    ObjectNode copy = value.deepCopy();
    return copy.set(field, added);
  }

  private static Materialized<String, JsonNode, KeyValueStore<Bytes, byte[]>> kept(String name, Serde<String> keys, Serde<JsonNode> values) {
    return Materialized.<String, JsonNode, KeyValueStore<Bytes, byte[]>>as(name).withKeySerde(keys).withValueSerde(values);
  }

  private static String windowName(Windowed<String> window) {
    return window.key() + "@" + window.window().start();
  }

  private static String env(String name, String otherwise) {
    String value = System.getenv(name);
    return value == null || value.isEmpty() ? otherwise : value;
  }

  private static void log(String message) {
    System.out.println(java.time.Instant.now() + " " + message);
  }

  /** Counts its own wall-clock ticks, twice: whatever is true of one store must be true of the other. */
  private static class Ticker implements Processor<String, JsonNode, Void, Void> {
    private static final List<String> STORES = List.of("ticks-first", "ticks-second");

    @Override
    public void init(ProcessorContext<Void, Void> context) {
      context.schedule(Duration.ofMillis(Long.parseLong(env("TICK_MS", ""))), PunctuationType.WALL_CLOCK_TIME, now -> {
        for (String name : STORES) {
          KeyValueStore<String, Long> store = context.getStateStore(name);
          Long before = store.get("ticks");
          store.put("ticks", before == null ? 1L : before + 1);
        }
      });
    }

    @Override
    public void process(Record<String, JsonNode> order) {}
  }

  private static class Ticking implements ProcessorSupplier<String, JsonNode, Void, Void> {
    @Override
    public Processor<String, JsonNode, Void, Void> get() {
      return new Ticker();
    }

    @Override
    public Set<StoreBuilder<?>> stores() {
      return Ticker.STORES.stream()
          .map(name -> Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(name), Serdes.String(), Serdes.Long()))
          .collect(Collectors.toSet());
    }
  }

  private static class ToBytes implements Serializer<JsonNode> {
    @Override
    public byte[] serialize(String topic, JsonNode value) {
      try {
        return value == null ? null : JSON.writeValueAsBytes(value);
      } catch (IOException error) {
        throw new UncheckedIOException(error);
      }
    }
  }

  private static class FromBytes implements Deserializer<JsonNode> {
    @Override
    public JsonNode deserialize(String topic, byte[] bytes) {
      try {
        return bytes == null ? null : JSON.readTree(bytes);
      } catch (IOException error) {
        throw new UncheckedIOException(error);
      }
    }
  }

  /** Counts, by offsets, what the stores of active tasks and global stores still have to read from their topics. */
  private static class Restoring implements StateRestoreListener {
    private final Map<TopicPartition, Long> ends = new ConcurrentHashMap<>();
    private final Map<TopicPartition, Long> left = new ConcurrentHashMap<>();

    long left() {
      return left.values().stream().mapToLong(Long::longValue).sum();
    }

    @Override
    public void onRestoreStart(TopicPartition log, String store, long start, long end) {
      ends.put(log, end);
      left.put(log, Math.max(0, end - start));
    }

    @Override
    public void onBatchRestored(TopicPartition log, String store, long lastOffset, long records) {
      left.computeIfPresent(log, (same, before) -> Math.max(0, ends.get(log) - lastOffset - 1));
    }

    @Override
    public void onRestoreEnd(TopicPartition log, String store, long records) {
      left.remove(log);
    }

    @Override
    public void onRestoreSuspended(TopicPartition log, String store, long records) {
      left.remove(log);
    }
  }

  /**
   * The HTTP interface: health, pause, resume and close, every key of every store that this instance is active for (as a replica, also of what it only
   * stands by for), and what one key has and which instance has it. With {@code HTTP_TOKEN} in the environment it answers only requests that carry it: {@code Authorization: Bearer <token>}.
   */
  private static class Control {
    private static final List<String> KEY_VALUE =
        List.of("order-totals", "latest-orders", "enriched-orders", "region-totals", "product-sales", "inventory");
    private static final List<String> WINDOW = List.of("orders-per-minute", "order-counts");
    private static final int EVERY = -1;
    private static final String TOKEN = env("HTTP_TOKEN", "");
    private final KafkaStreams streams;
    private final String topology;
    private final Restoring restoring;
    private volatile boolean paused;

    Control(KafkaStreams streams, Topology topology, Restoring restoring) {
      this.streams = streams;
      this.topology = topology.describe().toString();
      this.restoring = restoring;
    }

    void handle(HttpExchange exchange) throws IOException {
      // Before it is decoded: a key may have a slash, as %2F.
      String[] path = exchange.getRequestURI().getRawPath().substring(1).split("/");
      for (int at = 0; at < path.length; at++) {
        path[at] = URLDecoder.decode(path[at].replace("+", "%2B"), StandardCharsets.UTF_8);
      }
      try (exchange) {
        try {
          if (!known(exchange)) {
            answer(exchange, 401, error("the token is missing or another one"));
            return;
          }
          switch (path[0]) {
            case "health" -> health(exchange);
            case "pause", "resume" -> hold(exchange, path[0].equals("pause"));
            case "close" -> close(exchange);
            case "cleanup" -> cleanUp(exchange);
            case "owner" -> owner(exchange, path);
            case "state" -> state(exchange, path, false);
            case "topology" -> answer(exchange, 200, JSON.createObjectNode().put("topology", topology));
            case "replicas" -> state(exchange, path, true);
            default -> answer(exchange, 404, error("no such path"));
          }
        } catch (UnknownStateStoreException unknown) {
          answer(exchange, 404, error(String.valueOf(unknown.getMessage())));
        } catch (InvalidStateStorePartitionException elsewhere) {
          answer(exchange, 421, error("another instance has this key"));
        } catch (NumberFormatException wrong) {
          answer(exchange, 400, error("a bound is no number"));
        } catch (InvalidStateStoreException | IllegalStateException busy) {
          answer(exchange, 503, error(String.valueOf(busy.getMessage())));
        }
      }
    }

    private static boolean known(HttpExchange exchange) {
      String given = exchange.getRequestHeaders().getFirst("Authorization");
      // Takes as long whatever is wrong with it, so that nobody can guess it piece by piece.
      return TOKEN.isEmpty()
          || given != null && MessageDigest.isEqual(given.getBytes(StandardCharsets.UTF_8), ("Bearer " + TOKEN).getBytes(StandardCharsets.UTF_8));
    }

    private void health(HttpExchange exchange) throws IOException {
      boolean well = streams.state().isRunningOrRebalancing();
      ObjectNode body = JSON.createObjectNode().put("state", streams.state().name()).put("paused", paused);
      body.put("applicationId", env("APPLICATION_ID", "order-processor")).put("restoring", restoring.left());
      // Tasks that are warmed up are standby tasks too.
      body.put("standby_tasks", streams.metadataForLocalThreads().stream().mapToInt(thread -> thread.standbyTasks().size()).sum());
      body.put("commit_interval_ms", COMMIT_INTERVAL_MS);
      // By these the members of the group are known to be its own.
      var clients = body.putArray("client_ids");
      streams.metadataForLocalThreads().forEach(thread -> clients.add(thread.consumerClientId()));
      answer(exchange, well ? 200 : 503, body);
    }

    /** The program goes on, so that it can answer; it is ended by a signal. */
    private void close(HttpExchange exchange) throws IOException {
      if (!exchange.getRequestMethod().equals("POST")) {
        answer(exchange, 405, error("use POST"));
        return;
      }
      answer(exchange, 200, JSON.createObjectNode().put("closed", closed(streams)));
    }

    private void hold(HttpExchange exchange, boolean pause) throws IOException {
      if (!exchange.getRequestMethod().equals("POST")) {
        answer(exchange, 405, error("use POST"));
        return;
      }
      if (pause) {
        streams.pause();
      } else {
        streams.resume();
      }
      paused = pause;
      answer(exchange, 200, JSON.createObjectNode().put("paused", paused));
    }

    private void state(HttpExchange exchange, String[] path, boolean standby) throws IOException {
      if (path.length < 2) {
        ObjectNode stores = JSON.createObjectNode();
        stores.putPOJO("stores", List.of(KEY_VALUE, WINDOW, List.of("order-sessions", "order-versions")));
        answer(exchange, 200, stores);
        return;
      }
      if (path.length == 2) {
        Map<String, Object> found = new java.util.HashMap<>();
        try {
          visit(path[1], standby, found::put);
        } catch (UnknownStateStoreException unknown) {
          throw unknown;
        } catch (InvalidStateStoreException busy) {
          // One that runs has nothing of the store: there are more instances than partitions.
          if (standby || streams.state() != KafkaStreams.State.RUNNING || !found.isEmpty()) {
            throw busy;
          }
        }
        answer(exchange, 200, JSON.valueToTree(found));
        return;
      }
      int partition = located(path[1], path[2]).partition();
      ObjectNode found = JSON.createObjectNode().put("found", false);
      InvalidStateStoreException elsewhere = null;
      try {
        found = ofKey(path[1], path[2], partition, bounds(exchange));
      } catch (InvalidStateStorePartitionException other) {
        elsewhere = other;
      }
      // Where a producer chooses partitions in another way than Kafka's own partitioner, the key is in another one.
      try {
        found = found.get("found").asBoolean() ? found : ofKey(path[1], path[2], EVERY, bounds(exchange));
      } catch (InvalidStateStoreException nothing) {
        elsewhere = streams.state() == KafkaStreams.State.RUNNING && elsewhere != null ? elsewhere : nothing;
      }
      if (!found.get("found").asBoolean() && elsewhere != null) {
        throw elsewhere;
      }
      answer(exchange, found.get("found").asBoolean() ? 200 : 404, found);
    }

    /** Which instance is active for a key, and which only stand by. */
    private void owner(HttpExchange exchange, String[] path) throws IOException {
      KeyQueryMetadata where = located(path[1], path[2]);
      ObjectNode body = address(where.activeHost()).put("partition", where.partition());
      where.standbyHosts().forEach(host -> body.withArray("standbys").add(address(host)));
      answer(exchange, 200, body);
    }

    private static ObjectNode address(HostInfo host) {
      return JSON.createObjectNode().put("host", host.host()).put("port", host.port());
    }

    private KeyQueryMetadata located(String store, String key) {
      // Throws for a store that is not in the topology, whatever its kind.
      streams.store(StoreQueryParameters.fromNameAndType(store, QueryableStoreTypes.keyValueStore()));
      KeyQueryMetadata where = streams.queryMetadataForKey(store, key, Serdes.String().serializer());
      if (where == null || where.equals(KeyQueryMetadata.NOT_AVAILABLE)) {
        throw new IllegalStateException("it is not known yet who has which key");
      }
      return where;
    }

    /** What a key has in one partition, or in every one that is here. */
    private ObjectNode ofKey(String store, String key, int partition, Map<String, Instant> bounds) {
      ObjectNode found = JSON.createObjectNode().put("found", false);
      if (WINDOW.contains(store)) {
        try (WindowStoreIterator<Long> each =
            partitionOf(store, partition, QueryableStoreTypes.<String, Long>windowStore()).fetch(key, bounds.get("from"), bounds.get("to"))) {
          each.forEachRemaining(one -> window(found).put("start", one.key).put("value", one.value));
        }
      } else if (store.equals("order-sessions")) {
        // Not findSessions: where a store has several partitions it is not supported.
        try (KeyValueIterator<Windowed<String>, Long> each =
            partitionOf(store, partition, QueryableStoreTypes.<String, Long>sessionStore()).fetch(key)) {
          each.forEachRemaining(one -> {
            if (!one.key.window().endTime().isBefore(bounds.get("from")) && !one.key.window().startTime().isAfter(bounds.get("to"))) {
              window(found).put("start", one.key.window().start()).put("end", one.key.window().end()).put("value", one.value);
            }
          });
        }
      } else if (store.equals("order-versions")) {
        VersionedKeyQuery<String, JsonNode> query = VersionedKeyQuery.withKey(key);
        StateQueryRequest<VersionedRecord<JsonNode>> request =
            StateQueryRequest.inStore(store).withQuery(bounds.containsKey("asof") ? query.asOf(bounds.get("asof")) : query).requireActive();
        Map<Integer, QueryResult<VersionedRecord<JsonNode>>> results =
            streams.query(partition < 0 ? request.withAllPartitions() : request.withPartitions(Set.of(partition))).getPartitionResults();
        // Standbys and partitions of other instances fail.
        if (results.values().stream().noneMatch(QueryResult::isSuccess)) {
          throw new InvalidStateStorePartitionException("partition " + partition + " is not here");
        }
        results.values().stream().filter(QueryResult::isSuccess).map(QueryResult::getResult).filter(one -> one != null).findFirst().ifPresent(
            one -> found.put("found", true).put("valid_from", one.timestamp()).set("value", one.value()));
      } else {
        Object value = partitionOf(store, partition, QueryableStoreTypes.<String, Object>keyValueStore()).get(key);
        if (value != null) {
          found.put("found", true).set("value", JSON.valueToTree(value));
        }
      }
      return found;
    }

    private static ObjectNode window(ObjectNode found) {
      return found.put("found", true).withArray("windows").addObject();
    }

    private <T> T partitionOf(String store, int partition, QueryableStoreType<T> type) {
      StoreQueryParameters<T> wanted = StoreQueryParameters.fromNameAndType(store, type);
      return streams.store(partition < 0 ? wanted : wanted.withPartition(partition));
    }

    private static Map<String, Instant> bounds(HttpExchange exchange) {
      Map<String, Instant> found = new java.util.HashMap<>(Map.of("from", Instant.EPOCH, "to", Instant.ofEpochMilli(Long.MAX_VALUE)));
      String query = exchange.getRequestURI().getQuery();
      for (String pair : query == null ? new String[0] : query.split("&")) {
        String[] parts = pair.split("=", 2);
        found.put(parts[0], Instant.ofEpochMilli(Long.parseLong(parts.length < 2 ? "" : parts[1])));
      }
      return found;
    }

    /** Local state goes; Kafka Streams refuses that while it runs. */
    private void cleanUp(HttpExchange exchange) throws IOException {
      if (!exchange.getRequestMethod().equals("POST")) {
        answer(exchange, 405, error("use POST"));
        return;
      }
      try {
        streams.cleanUp();
      } catch (IllegalStateException running) {
        answer(exchange, 409, error(String.valueOf(running.getMessage())));
        return;
      }
      answer(exchange, 200, JSON.createObjectNode().put("cleaned", true));
    }

    private <T> T opened(String store, boolean standby, QueryableStoreType<T> type) {
      StoreQueryParameters<T> wanted = StoreQueryParameters.fromNameAndType(store, type);
      return streams.store(standby ? wanted.enableStaleStores() : wanted);
    }

    private void visit(String store, boolean standby, BiConsumer<String, Object> take) {
      if (KEY_VALUE.contains(store)) {
        ReadOnlyKeyValueStore<String, JsonNode> values = opened(store, standby, QueryableStoreTypes.keyValueStore());
        try (KeyValueIterator<String, JsonNode> all = values.all()) {
          all.forEachRemaining(entry -> take.accept(entry.key, entry.value));
        }
      } else if (WINDOW.contains(store)) {
        ReadOnlyWindowStore<String, Long> windows = opened(store, standby, QueryableStoreTypes.windowStore());
        try (KeyValueIterator<Windowed<String>, Long> all = windows.all()) {
          all.forEachRemaining(entry -> take.accept(windowName(entry.key), entry.value));
        }
      } else if (store.equals("order-sessions")) {
        ReadOnlySessionStore<String, Long> sessions = opened(store, standby, QueryableStoreTypes.sessionStore());
        try (KeyValueIterator<Windowed<String>, Long> all = sessions.fetch(null, null)) {
          all.forEachRemaining(entry -> take.accept(windowName(entry.key) + "-" + entry.key.window().end(), entry.value));
        }
      } else if (store.equals("order-versions")) {
        customers().forEach(customer -> latestVersion(customer, take));
      } else {
        throw new UnknownStateStoreException("no store " + store);
      }
    }

    private void latestVersion(String customer, BiConsumer<String, Object> take) {
      var result = streams.query(StateQueryRequest.inStore("order-versions").withQuery(VersionedKeyQuery.<String, JsonNode>withKey(customer)));
      result.getPartitionResults().values().forEach(one -> {
        if (one.isSuccess() && one.getResult() != null) {
          take.accept(customer, one.getResult().value());
        }
      });
    }

    /** A versioned store cannot be listed; it has the keys of order-totals, which is in the same tasks. */
    private List<String> customers() {
      List<String> keys = new ArrayList<>();
      visit("order-totals", false, (key, value) -> keys.add(key));
      return keys;
    }

    private static ObjectNode error(String message) {
      return JSON.createObjectNode().put("error", message);
    }

    private static void answer(HttpExchange exchange, int status, JsonNode body) throws IOException {
      exchange.getResponseHeaders().set("Content-Type", "application/json");
      exchange.sendResponseHeaders(status, 0);
      try (OutputStream out = new BufferedOutputStream(exchange.getResponseBody(), 1 << 16)) {
        out.write(JSON.writeValueAsString(body).getBytes(StandardCharsets.UTF_8));
      }
    }
  }
}
