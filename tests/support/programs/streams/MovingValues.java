import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;

/**
 * Moves a part of every key's value from one store to another by the clock, without any input; what a record brings is added to the first store. The sum
 * of both stores is what came in, for every key, after every transaction and never in the middle of one. Runs until it is ended.
 *
 * <p>Arguments: bootstrap servers, application id, input topic, state directory, keys per partition. Batches are small, so that a transaction takes long and
 * has many requests to each of its partitions. Between two moves are one to eight rests of 100 ms: on a slow machine a cut takes longer than one.
 */
public final class MovingValues {
  private static final Map<String, Object> SETTINGS =
      Map.of(
          StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2,
          StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100,
          StreamsConfig.producerPrefix(ProducerConfig.BATCH_SIZE_CONFIG), 1_000,
          StreamsConfig.producerPrefix(ProducerConfig.LINGER_MS_CONFIG), 0,
          "auto.offset.reset", "earliest",
          "session.timeout.ms", 6_000,
          "heartbeat.interval.ms", 2_000);

  public static void main(String[] args) throws Exception {
    Properties settings = new Properties();
    settings.putAll(SETTINGS);
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
    settings.put(StreamsConfig.STATE_DIR_CONFIG, args[3]);
    StreamsBuilder builder = new StreamsBuilder();
    builder
        .stream(args[2], Consumed.with(Serdes.String(), Serdes.String()))
        .process(new Moving(Integer.parseInt(args[4])), Named.as("move"));
    KafkaStreams streams = new KafkaStreams(builder.build(), settings);
    Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(20))));
    streams.start();
    while (streams.state() != KafkaStreams.State.ERROR) {
      Thread.sleep(200);
    }
    Runtime.getRuntime().halt(1);
  }

  private record Moving(int keys) implements ProcessorSupplier<String, String, Void, Void> {
    @Override
    public Processor<String, String, Void, Void> get() {
      return new Mover(keys);
    }

    @Override
    public Set<StoreBuilder<?>> stores() {
      return Set.of(store("left"), store("right"));
    }

    private static StoreBuilder<?> store(String name) {
      return Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore(name), Serdes.String(), Serdes.Long());
    }
  }

  private static final class Mover implements Processor<String, String, Void, Void> {
    private final int keys;
    private KeyValueStore<String, Long> left;
    private KeyValueStore<String, Long> right;
    private long moves;
    private long rests;

    Mover(int keys) {
      this.keys = keys;
    }

    @Override
    public void init(ProcessorContext<Void, Void> context) {
      left = context.getStateStore("left");
      right = context.getStateStore("right");
      int partition = context.taskId().partition();
      context.schedule(Duration.ofMillis(100), PunctuationType.WALL_CLOCK_TIME, now -> moveOrRest(partition, now % 1_000));
    }

    private void moveOrRest(int partition, long part) {
      if (rests > 0) {
        rests--;
        return;
      }
      rests = 1 + moves++ % 8;
      add(left, partition, -part);
      add(right, partition, part);
    }

    private void add(KeyValueStore<String, Long> store, int partition, long part) {
      for (int number = 0; number < keys; number++) {
        String key = partition + "-" + number;
        store.put(key, of(store, key) + part);
      }
    }

    @Override
    public void process(Record<String, String> record) {
      left.put(record.key(), of(left, record.key()) + Long.parseLong(record.value()));
    }

    private static long of(KeyValueStore<String, Long> store, String key) {
      Long found = store.get(key);
      return found == null ? 0 : found;
    }
  }
}
