import com.example.recovery.KeyQueries;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.function.Function;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.UnknownStateStoreException;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;

/**
 * The HTTP interface by which an application is paused, asked and closed. Copy this file and KeyQueries.java. They need what every Kafka Streams application has on its class
 * path (Jackson is a dependency of Kafka Streams), and Java 17.
 *
 * <pre>
 *   KafkaStreams streams = new KafkaStreams(topology, settings);
 *   RecoveryEndpoints endpoints = new RecoveryEndpoints(streams, 8080, commitIntervalMs, topology);   // before start()
 *   streams.start();
 *   endpoints.start();
 * </pre>
 */
public final class RecoveryEndpoints {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Duration CLOSE = Duration.ofSeconds(30);
  private final KafkaStreams streams;
  private final long commitIntervalMs;
  private final HttpServer server;
  private final String token;
  private final String topology;
  private final Remaining remaining = new Remaining();
  private final KeyQueries queries;
  private volatile boolean paused;

  public RecoveryEndpoints(KafkaStreams streams, int port, long commitIntervalMs) throws IOException {
    this(streams, port, commitIntervalMs, null);
  }

  /** {@code topology} is what the application was made of, or null: then it cannot say what it reads, writes and keeps. */
  public RecoveryEndpoints(KafkaStreams streams, int port, long commitIntervalMs, Topology topology) throws IOException {
    this.streams = streams;
    this.queries = new KeyQueries(() -> streams);
    this.topology = topology == null ? null : topology.describe().toString();
    this.commitIntervalMs = commitIntervalMs;
    String given = System.getenv("RECOVERY_TOKEN");
    this.token = given == null ? "" : given;
    // Without a token only this machine may ask: whoever reaches these paths can pause the application and read its state.
    this.server = HttpServer.create(new InetSocketAddress(token.isEmpty() ? "127.0.0.1" : "0.0.0.0", port), 0);
    server.createContext("/", this::handle);
    server.setExecutor(Executors.newFixedThreadPool(2));
    streams.setGlobalStateRestoreListener(remaining);
    Runtime.getRuntime().addShutdownHook(new Thread(this::shutDown));
  }

  /** How the text of a key in a path becomes a key of this store. Keys of other stores are text, as {@code Serdes.String()} writes it. */
  public <K> RecoveryEndpoints keys(String store, Serializer<K> serializer, Function<String, K> parse) {
    queries.keys(store, serializer, parse);
    return this;
  }

  public void start() {
    server.start();
  }

  private void handle(HttpExchange exchange) throws IOException {
    String path = exchange.getRequestURI().getPath();
    // Before it is decoded: a key may have a slash, as %2F.
    String[] parts = exchange.getRequestURI().getRawPath().split("/", -1);
    boolean post = exchange.getRequestMethod().equals("POST");
    try (exchange) {
      if (!known(exchange)) {
        answer(exchange, 401, error("the token is missing or another one"));
      } else if (path.equals("/health") && !post) {
        health(exchange);
      } else if (path.equals("/pause") && post) {
        streams.pause();
        paused = true;
        answer(exchange, 200, Map.of("paused", true));
      } else if (path.equals("/resume") && post) {
        streams.resume();
        paused = false;
        answer(exchange, 200, Map.of("paused", false));
      } else if (path.equals("/close") && post) {
        answer(exchange, 200, Map.of("closed", closed()));
      } else if (path.equals("/cleanup") && post) {
        cleanUp(exchange);
      } else if (parts.length == 4 && (parts[1].equals("state") || parts[1].equals("owner")) && !post) {
        byKey(exchange, parts[1], KeyQueries.decoded(parts[2]), KeyQueries.decoded(parts[3]));
      } else if (path.equals("/topology") && !post && topology != null) {
        answer(exchange, 200, Map.of("topology", topology));
      } else if (path.startsWith("/state/") && !post) {
        state(exchange, path.substring("/state/".length()));
      } else {
        answer(exchange, 404, error("no such path"));
      }
    }
  }

  /** All but the state may be left out. With the others a recovery knows more and waits less. */
  private void health(HttpExchange exchange) throws IOException {
    ObjectNode body = JSON.createObjectNode();
    body.put("state", streams.state().name());
    body.put("paused", paused);
    body.put("restoring", remaining.records());
    body.put("standby_tasks", streams.metadataForLocalThreads().stream().mapToInt(thread -> thread.standbyTasks().size()).sum());
    body.put("commit_interval_ms", commitIntervalMs);
    // By these the members of the group are known to be its own.
    var clients = body.putArray("client_ids");
    streams.metadataForLocalThreads().forEach(thread -> clients.add(thread.consumerClientId()));
    answer(exchange, streams.state().isRunningOrRebalancing() ? 200 : 503, body);
  }

  /**
   * Every key of a key-value store that this instance is active for: text as text, anything else as Jackson writes it. Where there are more instances than
   * partitions, some have nothing of it.
   */
  private void state(HttpExchange exchange, String store) throws IOException {
    ObjectNode found = JSON.createObjectNode();
    try {
      ReadOnlyKeyValueStore<Object, Object> values =
          streams.store(StoreQueryParameters.fromNameAndType(store, QueryableStoreTypes.keyValueStore()));
      try (KeyValueIterator<Object, Object> all = values.all()) {
        all.forEachRemaining(entry -> found.set(String.valueOf(entry.key), JSON.valueToTree(entry.value)));
      }
    } catch (UnknownStateStoreException unknown) {
      answer(exchange, 404, error("no store " + store));
      return;
    } catch (InvalidStateStoreException | IllegalStateException busy) {
      if (streams.state() != KafkaStreams.State.RUNNING || !found.isEmpty()) {
        answer(exchange, 503, error(String.valueOf(busy.getMessage())));
        return;
      }
    }
    answer(exchange, 200, found);
  }

  private void byKey(HttpExchange exchange, String what, String store, String key) throws IOException {
    KeyQueries.Answer found = what.equals("owner")
        ? queries.owner(store, key)
        : queries.value(store, key, KeyQueries.parameters(exchange.getRequestURI().getRawQuery()));
    answer(exchange, found.status(), found.body());
  }

  /** Removes the local state of an application that is closed. Kafka Streams refuses it while it runs. */
  private void cleanUp(HttpExchange exchange) throws IOException {
    try {
      streams.cleanUp();
    } catch (IllegalStateException running) {
      answer(exchange, 409, error(String.valueOf(running.getMessage())));
      return;
    }
    answer(exchange, 200, Map.of("cleaned", true));
  }

  /** True when everything was flushed and committed. For an application that has failed, close() returns true too. */
  private boolean closed() {
    return streams.close(CLOSE) && streams.state() == KafkaStreams.State.NOT_RUNNING;
  }

  /** Java ends with status 143 after SIGTERM, whether or not this has worked. So an application that did not close must end with another one. */
  private void shutDown() {
    if (!closed()) {
      Runtime.getRuntime().halt(1);
    }
  }

  private boolean known(HttpExchange exchange) {
    String given = exchange.getRequestHeaders().getFirst("Authorization");
    return token.isEmpty()
        || given != null && MessageDigest.isEqual(given.getBytes(StandardCharsets.UTF_8), ("Bearer " + token).getBytes(StandardCharsets.UTF_8));
  }

  private static Map<String, String> error(String message) {
    return Map.of("error", message);
  }

  private static void answer(HttpExchange exchange, int status, Object body) throws IOException {
    byte[] bytes = JSON.writeValueAsBytes(body);
    exchange.getResponseHeaders().set("Content-Type", "application/json");
    exchange.sendResponseHeaders(status, bytes.length);
    exchange.getResponseBody().write(bytes);
  }

  /** Counts the records that stores still have to read from their changelogs. */
  private static final class Remaining implements StateRestoreListener {
    private final Map<TopicPartition, Long> ends = new ConcurrentHashMap<>();
    private final Map<TopicPartition, Long> left = new ConcurrentHashMap<>();

    long records() {
      return left.values().stream().mapToLong(Long::longValue).sum();
    }

    @Override
    public void onRestoreStart(TopicPartition log, String store, long start, long end) {
      ends.put(log, end);
      left.put(log, Math.max(0, end - start));
    }

    @Override
    public void onBatchRestored(TopicPartition log, String store, long last, long records) {
      left.computeIfPresent(log, (same, before) -> Math.max(0, ends.get(log) - last - 1));
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
}
