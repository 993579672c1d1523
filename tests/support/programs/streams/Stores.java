import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowStore;

/** Sums and counts by key, in stores of several kinds and types. Processes so many records, says what its stores hold, and ends. */
public final class Stores {
    private static final Duration KEPT = Duration.ofDays(10);
    private static final Duration GRACE = Duration.ofDays(1);

    public static void main(String[] args) throws Exception {
        for (int length = 0; length < 40; length++) {
            byte[] key = "ü€-key that is as long as it is cut: 0123456789".getBytes(StandardCharsets.UTF_8);
            byte[] cut = Arrays.copyOf(key, length);
            say("hash", HexFormat.of().formatHex(cut), Utils.murmur2(cut), Utils.toPositive(Utils.murmur2(cut)) % 7);
        }
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, args[3]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, "100");
        settings.put("statestore.cache.max.bytes", "0");
        settings.put("auto.offset.reset", "earliest");
        settings.put("session.timeout.ms", "6000");
        CountDownLatch processed = new CountDownLatch(Integer.parseInt(args[4]));
        StreamsBuilder builder = new StreamsBuilder();
        KGroupedStream<String, String> records = builder.stream(args[2], Consumed.with(Serdes.String(), Serdes.String())).groupByKey();
        records.aggregate(() -> 0L, (key, value, sum) -> sum + Long.parseLong(value), kept("totals", Serdes.Long()));
        records.aggregate(() -> 0, (key, value, count) -> count + 1, kept("counts", Serdes.Integer()));
        records.aggregate(() -> 1.0, (key, value, half) -> half / 2, kept("halves", Serdes.Double()));
        records.aggregate(() -> "{}", (key, value, last) -> "{\"last\": " + value + "}", kept("documents", Serdes.String()));
        records.windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMinutes(1), GRACE))
            .count(Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("minutes").withRetention(KEPT));
        records.windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofMinutes(5), GRACE))
            .count(Materialized.<String, Long, SessionStore<Bytes, byte[]>>as("sessions").withRetention(KEPT))
            .toStream()
            .foreach((key, value) -> {
                // The last of what happens to a record; a session that grows is deleted first.
                if (value != null) {
                    processed.countDown();
                }
            });
        try (KafkaStreams streams = new KafkaStreams(builder.build(), settings)) {
            streams.start();
            if (!processed.await(120, TimeUnit.SECONDS) || !running(streams)) {
                throw new IllegalStateException("not done: " + streams.state() + ", " + processed.getCount() + " to go");
            }
            for (String store : new String[] {"totals", "counts", "halves", "documents"}) {
                try (var all = streams.store(StoreQueryParameters.fromNameAndType(store, QueryableStoreTypes.timestampedKeyValueStore())).all()) {
                    all.forEachRemaining(one -> say(store, one.key, one.value.value(), one.value.timestamp()));
                }
            }
            try (var all = streams.store(StoreQueryParameters.fromNameAndType("minutes", QueryableStoreTypes.timestampedWindowStore())).all()) {
                all.forEachRemaining(one -> say("minutes", one.key.key(), one.key.window().start(), one.value.value(), one.value.timestamp()));
            }
            try (var all = streams.store(StoreQueryParameters.fromNameAndType("sessions", QueryableStoreTypes.sessionStore())).fetch(null, null)) {
                all.forEachRemaining(one -> say("sessions", one.key.key(), one.key.window().start(), one.key.window().end(), one.value));
            }
        }
    }

    private static <V> Materialized<String, V, KeyValueStore<Bytes, byte[]>> kept(String name, Serde<V> values) {
        return Materialized.<String, V, KeyValueStore<Bytes, byte[]>>as(name).withKeySerde(Serdes.String()).withValueSerde(values);
    }

    private static boolean running(KafkaStreams streams) throws InterruptedException {
        for (int tries = 0; tries < 600 && streams.state() != KafkaStreams.State.RUNNING; tries++) {
            Thread.sleep(100);
        }
        return streams.state() == KafkaStreams.State.RUNNING;
    }

    private static void say(Object... parts) {
        StringBuilder line = new StringBuilder("STATE");
        for (Object part : parts) {
            line.append('\t').append(part);
        }
        System.out.println(line);
    }
}
