import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig;
import org.apache.kafka.streams.kstream.TableJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.SessionStore;

/**
 * Shapes of state, each a topology of its own in one application. The shape {@code left} reads the topics {@code <id>.left.left} and {@code <id>.left.right}
 * and writes {@code <id>.left.out}. What each of them does is written down once more, without Kafka Streams, in {@code shape_oracles.py}.
 *
 * <p>Arguments: the shapes that are wanted, with commas. Everything else is in the environment.
 */
public final class Shapes {
  private static final String ID = System.getenv("APPLICATION_ID");
  private static final Serde<String> TEXT = Serdes.String();
  private static final Duration MINUTE = Duration.ofMinutes(1);
  private static final ValueJoiner<String, String, String> BOTH = (left, right) -> left + "|" + right;
  private static final StreamsBuilder BUILDER = new StreamsBuilder();

  public static void main(String[] arguments) throws Exception {
    for (String shape : arguments[0].split(",")) {
      switch (shape) {
        case "inner", "left", "outer" -> streamJoin(shape);
        case "tables" -> tables();
        case "foreign" -> foreign();
        case "memory" -> memory();
        case "unlogged" -> unlogged();
        case "suppressed" -> suppressed();
        case "optimized" -> optimized();
        case "globals" -> globals();
        case "punctuated" -> stream("punctuated", "in").process(new Punctuated(), Named.as("punctuated")).to(out("punctuated"));
        case "versioned" -> versioned();
        case "ahead" -> stream("ahead", "in").process(new Ahead(), Named.as("ahead")).to(out("ahead"));
        default -> throw new IllegalArgumentException("no shape " + shape);
      }
    }
    Properties settings = settings();
    KafkaStreams streams = new KafkaStreams(BUILDER.build(settings), settings);
    RecoveryEndpoints endpoints = new RecoveryEndpoints(streams, Integer.parseInt(System.getenv("PORT")), 100);
    streams.start();
    endpoints.start();
    while (streams.state() != KafkaStreams.State.ERROR) {
      Thread.sleep(200);
    }
    Runtime.getRuntime().halt(1);
  }

  private static Properties settings() {
    Properties settings = new Properties();
    settings.put("application.id", ID);
    settings.put("bootstrap.servers", System.getenv("BOOTSTRAP_SERVERS"));
    settings.put("state.dir", System.getenv("STATE_DIR"));
    settings.put("processing.guarantee", System.getenv("GUARANTEE"));
    settings.put("commit.interval.ms", 100);
    settings.put("num.stream.threads", System.getenv("THREADS"));
    settings.put("num.standby.replicas", System.getenv("STANDBYS"));
    settings.put("acceptable.recovery.lag", Long.MAX_VALUE);
    settings.put("group.protocol", System.getenv("PROTOCOL"));
    if (System.getenv("PROTOCOL").equals("classic")) {
      settings.put("session.timeout.ms", System.getenv("SESSION_MS"));
      settings.put("heartbeat.interval.ms", 2_000);
    }
    if (System.getenv("STATIC_MEMBER") != null) {
      settings.put("group.instance.id", System.getenv("STATIC_MEMBER"));
    }
    settings.put("topology.optimization", System.getenv("OPTIMIZATION"));
    settings.put("repartition.purge.interval.ms", Long.parseLong(System.getenv("PURGE_MS")));
    settings.put("poll.ms", Long.parseLong(System.getenv("POLL_MS")));
    settings.put("auto.offset.reset", "earliest");
    settings.put("replication.factor", 1);
    settings.put("default.key.serde", Serdes.StringSerde.class);
    settings.put("default.value.serde", Serdes.StringSerde.class);
    // Every update is a result, so that results can be counted.
    settings.put("statestore.cache.max.bytes", 0);
    // What found no partner is said as soon as its time is over, and not once a second by the clock on the wall.
    settings.put("__emit.interval.ms.kstreams.outer.join.spurious.results.fix__", 0L);
    return settings;
  }

  private static String topic(String shape, String side) {
    return ID + "." + shape + "." + side;
  }

  private static String out(String shape) {
    return topic(shape, "out");
  }

  private static KStream<String, String> stream(String shape, String side) {
    return BUILDER.stream(topic(shape, side), Consumed.with(TEXT, TEXT));
  }

  private static KTable<String, String> table(String shape, String side) {
    return BUILDER.table(topic(shape, side), Consumed.with(TEXT, TEXT), kept(shape + "-" + side));
  }

  private static Materialized<String, String, KeyValueStore<Bytes, byte[]>> kept(String name) {
    return Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as(name).withKeySerde(TEXT).withValueSerde(TEXT);
  }

  private static void streamJoin(String shape) {
    KStream<String, String> left = stream(shape, "left");
    KStream<String, String> right = stream(shape, "right");
    JoinWindows windows = JoinWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(20), Duration.ofMinutes(20));
    StreamJoined<String, String, String> named = StreamJoined.with(TEXT, TEXT, TEXT).withName(shape).withStoreName(shape);
    KStream<String, String> joined =
        switch (shape) {
          case "inner" -> left.join(right, BOTH, windows, named);
          case "left" -> left.leftJoin(right, BOTH, windows, named);
          default -> left.outerJoin(right, BOTH, windows, named);
        };
    joined.to(out(shape));
  }

  private static void tables() {
    KTable<String, String> left = table("tables", "left");
    KTable<String, String> right = table("tables", "right");
    told("tables", "inner", left.join(right, BOTH, kept("tables-inner")));
    told("tables", "both", left.outerJoin(right, BOTH, kept("tables-outer")));
    told("tables", "left", left.leftJoin(right, BOTH, kept("tables-joined-left")));
  }

  private static void foreign() {
    KTable<String, String> left = table("foreign", "left");
    KTable<String, String> right = table("foreign", "right");
    told("foreign", "inner", left.join(right, Shapes::before, BOTH, TableJoined.as("foreign-inner"), kept("foreign-inner")));
    told("foreign", "left", left.leftJoin(right, Shapes::before, BOTH, TableJoined.as("foreign-joined-left"), kept("foreign-joined-left")));
  }

  private static String before(String value) {
    return value.substring(0, value.indexOf(':'));
  }

  private static void told(String shape, String as, KTable<String, String> table) {
    table.toStream((key, value) -> as + ":" + key).to(out(shape));
  }

  private static void memory() {
    KGroupedStream<String, String> records = stream("memory", "in").groupByKey();
    records.count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("memory-counts")))
        .toStream((key, count) -> "all:" + key).mapValues(String::valueOf).to(out("memory"));
    Duration kept = Duration.ofHours(2);
    records.windowedBy(TimeWindows.ofSizeAndGrace(MINUTE, Duration.ofHours(1)))
        .count(Materialized.<String, Long>as(Stores.inMemoryWindowStore("memory-minutes", kept, MINUTE, false)))
        .toStream((window, count) -> "minute:" + window.key() + "@" + window.window().start()).mapValues(String::valueOf).to(out("memory"));
    records.windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofSeconds(30), Duration.ofHours(1)))
        .count(Materialized.<String, Long>as(Stores.inMemorySessionStore("memory-sessions", kept)))
        .toStream((session, count) -> "session:" + session.key() + "@" + session.window().start() + "-" + session.window().end())
        .filter((session, count) -> count != null).mapValues(String::valueOf).to(out("memory"));
  }

  private static void unlogged() {
    KGroupedStream<String, String> records = stream("unlogged", "in").groupByKey();
    records.count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("unlogged-with"))
        .toStream((key, count) -> "with:" + key).mapValues(String::valueOf).to(out("unlogged"));
    records.count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("unlogged-without").withLoggingDisabled())
        .toStream((key, count) -> "without:" + key).mapValues(String::valueOf).to(out("unlogged"));
  }

  private static void suppressed() {
    stream("suppressed", "in")
        .groupByKey()
        .windowedBy(TimeWindows.ofSizeWithNoGrace(MINUTE))
        .count(Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("suppressed-minutes"))
        .suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded()).withName("suppressed"))
        .toStream((window, count) -> window.key() + "@" + window.window().start())
        .process(WithHeader::new, Named.as("with-header"))
        .to(out("suppressed"));
  }

  private static void optimized() {
    KTable<String, String> table = table("optimized", "table");
    stream("optimized", "in").leftJoin(table, BOTH, Joined.with(TEXT, TEXT, TEXT)).to(out("optimized"));
  }

  private static void globals() {
    GlobalKTable<String, String> table = BUILDER.globalTable(topic("globals", "table"), Consumed.with(TEXT, TEXT), kept("globals-table"));
    StoreBuilder<KeyValueStore<String, String>> store =
        Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("globals-store"), TEXT, TEXT).withLoggingDisabled();
    BUILDER.addGlobalStore(store, topic("globals", "store"), Consumed.with(TEXT, TEXT), Shouted::new);
    stream("globals", "in").leftJoin(table, (key, value) -> key, BOTH).process(WithStore::new, Named.as("with-store")).to(out("globals"));
  }

  private static void versioned() {
    KTable<String, String> versions =
        BUILDER.table(
            topic("versioned", "table"),
            Consumed.with(TEXT, TEXT),
            Materialized.<String, String>as(Stores.persistentVersionedKeyValueStore("versioned-table", Duration.ofDays(1)))
                .withKeySerde(TEXT)
                .withValueSerde(TEXT));
    stream("versioned", "in").leftJoin(versions, BOTH, Joined.with(TEXT, TEXT, TEXT)).to(out("versioned"));
  }

  /** The count of a window, and the header of the record that was counted last. */
  private static final class WithHeader extends ContextualProcessor<String, Long, String, String> {
    @Override
    public void process(Record<String, Long> record) {
      Header trace = record.headers().lastHeader("trace");
      String text = trace == null ? "none" : new String(trace.value(), StandardCharsets.UTF_8);
      context().forward(record.withValue(record.value() + "|" + text));
    }
  }

  /** A global store that has something else than its topic: Kafka Streams has to process the topic again to restore it. */
  private static final class Shouted implements Processor<String, String, Void, Void> {
    private KeyValueStore<String, String> store;

    @Override
    public void init(ProcessorContext<Void, Void> context) {
      store = context.getStateStore("globals-store");
    }

    @Override
    public void process(Record<String, String> record) {
      store.put(record.key(), record.value() == null ? null : record.value().toUpperCase(java.util.Locale.ROOT));
    }
  }

  private static final class WithStore extends ContextualProcessor<String, String, String, String> {
    @Override
    public void process(Record<String, String> record) {
      KeyValueStore<String, String> store = context().getStateStore("globals-store");
      context().forward(record.withValue(record.value() + "|" + store.get(record.key())));
    }
  }

  /** Keeps what is due later in the window of that time, and says what is due at the time of a record. */
  private static final class Ahead implements ProcessorSupplier<String, String, String, String> {
    @Override
    public Processor<String, String, String, String> get() {
      return new Reminder();
    }

    @Override
    public Set<StoreBuilder<?>> stores() {
      return Set.of(Stores.windowStoreBuilder(Stores.persistentWindowStore("ahead-due", Duration.ofHours(1), MINUTE, false), TEXT, TEXT));
    }
  }

  private static final class Reminder extends ContextualProcessor<String, String, String, String> {
    @Override
    public void process(Record<String, String> record) {
      WindowStore<String, String> due = context().getStateStore("ahead-due");
      if (record.value().startsWith("due ")) {
        due.put(record.key(), record.value(), Long.parseLong(record.value().substring(4)));
      } else {
        context().forward(record.withValue(record.value() + "|" + due.fetch(record.key(), record.timestamp())));
      }
    }
  }

  /**
   * Adds what a record brings to a sum, two minutes later. Records only wait in the one store; the other one is written by the clock alone.
   */
  private static final class Punctuated implements ProcessorSupplier<String, String, String, String> {
    @Override
    public Processor<String, String, String, String> get() {
      return new Punctuator();
    }

    @Override
    public Set<StoreBuilder<?>> stores() {
      return Set.of(
          Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("punctuated-waiting"), TEXT, TEXT),
          Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("punctuated-sums"), TEXT, Serdes.Long()));
    }
  }

  private static final class Punctuator extends ContextualProcessor<String, String, String, String> {
    private static final String NEWEST = "newest";
    private KeyValueStore<String, String> waiting;
    private KeyValueStore<String, Long> sums;

    @Override
    public void init(ProcessorContext<String, String> context) {
      super.init(context);
      waiting = context.getStateStore("punctuated-waiting");
      sums = context.getStateStore("punctuated-sums");
      context.schedule(Duration.ofMillis(50), PunctuationType.WALL_CLOCK_TIME, this::move);
    }

    @Override
    public void process(Record<String, String> record) {
      waiting.put(record.key() + "@" + record.timestamp(), record.value());
      String newest = waiting.get(NEWEST);
      if (newest == null || Long.parseLong(newest) < record.timestamp()) {
        waiting.put(NEWEST, Long.toString(record.timestamp()));
      }
    }

    private void move(long now) {
      String newest = waiting.get(NEWEST);
      if (newest == null) {
        return;
      }
      List<KeyValue<String, String>> due = new ArrayList<>();
      try (KeyValueIterator<String, String> all = waiting.all()) {
        all.forEachRemaining(one -> {
          if (!one.key.equals(NEWEST) && after(one.key) + 120_000 <= Long.parseLong(newest)) {
            due.add(one);
          }
        });
      }
      for (KeyValue<String, String> one : due) {
        String key = one.key.substring(0, one.key.indexOf('@'));
        Long before = sums.get(key);
        long sum = (before == null ? 0 : before) + Long.parseLong(one.value);
        sums.put(key, sum);
        waiting.delete(one.key);
        context().forward(new Record<>(key, Long.toString(sum), after(one.key)));
      }
    }

    private static long after(String name) {
      return Long.parseLong(name.substring(name.indexOf('@') + 1));
    }
  }
}
