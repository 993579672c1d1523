import java.time.Duration;
import java.util.Arrays;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;

/**
 * Counts words behind a repartition topic, and writes each count to an output. Before that it counts the lines of each input partition in the store "left"; by
 * the clock, without any input, it moves that count to the store "right". The sum of both is the number of lines that were read. Works exactly once.
 *
 * <p>Arguments: bootstrap servers, application id, input, output, state directory, group protocol. With one more, each task writes to each partition of the
 * output, and transactions lie in one another.
 */
public final class NamedCounts {
  public static void main(String[] args) throws Exception {
    Properties settings = new Properties();
    settings.put("bootstrap.servers", args[0]);
    settings.put("application.id", args[1]);
    settings.put("state.dir", args[4]);
    settings.put("group.protocol", args[5]);
    settings.put("processing.guarantee", "exactly_once_v2");
    settings.put("commit.interval.ms", 100);
    settings.put("num.stream.threads", 2);
    settings.put("auto.offset.reset", "earliest");
    settings.put("replication.factor", 1);
    settings.put("statestore.cache.max.bytes", 0);
    // The test looks at unread records after the fact.
    settings.put("repartition.purge.interval.ms", 3_600_000);
    if (args[5].equals("classic")) {
      settings.put("session.timeout.ms", 6_000);
      settings.put("heartbeat.interval.ms", 2_000);
    }
    if (args.length > 6) {
      // Transactions are open for long, and their records come at once.
      settings.put("commit.interval.ms", 400);
      settings.put("producer.linger.ms", 0);
    }
    StreamsBuilder builder = new StreamsBuilder();
    builder.stream(args[2], Consumed.with(Serdes.String(), Serdes.String()))
        .process(new Lines(), Named.as("lines"))
        .flatMapValues(line -> Arrays.asList(line.split(" ")))
        .groupBy((key, word) -> word, Grouped.with("words", Serdes.String(), Serdes.String()))
        .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts"))
        .toStream()
        .to(args[3], args.length > 6 ? counts().withStreamPartitioner(NamedCounts::spread) : counts());
    KafkaStreams streams = new KafkaStreams(builder.build(), settings);
    Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(20))));
    streams.start();
    while (streams.state() != KafkaStreams.State.ERROR) {
      Thread.sleep(200);
    }
    Runtime.getRuntime().halt(1);
  }

  private static Produced<String, Long> counts() {
    return Produced.with(Serdes.String(), Serdes.Long());
  }

  private static Optional<Set<Integer>> spread(String topic, String word, Long count, int partitions) {
    return Optional.of(Set.of((int) (count % partitions)));
  }

  private record Lines() implements ProcessorSupplier<String, String, String, String> {
    @Override
    public Processor<String, String, String, String> get() {
      return new Mover();
    }

    @Override
    public Set<StoreBuilder<?>> stores() {
      return Set.of(store("left"), store("right"));
    }

    private static StoreBuilder<?> store(String name) {
      return Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore(name), Serdes.String(), Serdes.Long());
    }
  }

  private static final class Mover implements Processor<String, String, String, String> {
    private static final String KEY = "lines";
    private ProcessorContext<String, String> context;
    private KeyValueStore<String, Long> left;
    private KeyValueStore<String, Long> right;

    @Override
    public void init(ProcessorContext<String, String> given) {
      context = given;
      left = context.getStateStore("left");
      right = context.getStateStore("right");
      context.schedule(Duration.ofMillis(150), PunctuationType.WALL_CLOCK_TIME, now -> move());
    }

    private void move() {
      right.put(KEY, of(right) + of(left));
      left.put(KEY, 0L);
    }

    @Override
    public void process(Record<String, String> record) {
      left.put(KEY, of(left) + 1);
      context.forward(record);
    }

    private static long of(KeyValueStore<String, Long> store) {
      Long found = store.get(KEY);
      return found == null ? 0 : found;
    }
  }
}
