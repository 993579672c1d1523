import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.WindowStore;

/** Counts by minute, and says each count once its minute is over. Processes so many records, and ends. */
public final class ClosedWindows {
    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, args[3]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, "100");
        settings.put("auto.offset.reset", "earliest");
        settings.put("session.timeout.ms", "6000");
        // Windows are looked through for closed ones at most once a second, by the clock on the wall.
        settings.put("__emit.interval.ms.kstreams.windowed.aggregation__", 0L);
        CountDownLatch processed = new CountDownLatch(Integer.parseInt(args[4]));
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> records = builder.stream(args[2], Consumed.with(Serdes.String(), Serdes.String()));
        records
            .groupByKey()
            .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMinutes(1)))
            .emitStrategy(EmitStrategy.onWindowClose())
            .count(Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("minutes").withRetention(Duration.ofDays(10)))
            .toStream()
            .foreach((window, count) -> System.out.println("CLOSED\t" + window.key() + "\t" + window.window().start() + "\t" + count));
        records.foreach((key, value) -> processed.countDown());
        try (KafkaStreams streams = new KafkaStreams(builder.build(), settings)) {
            streams.start();
            if (!processed.await(120, TimeUnit.SECONDS)) {
                throw new IllegalStateException("not done: " + streams.state() + ", " + processed.getCount() + " to go");
            }
        }
    }
}
