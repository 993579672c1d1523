import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.LongSerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;

/**
 * A store of each kind that can be asked by key, with the endpoints that people copy. Values of the input are numbers. Arguments: brokers, application id,
 * input, input of a global table, state directory, port, and this instance's application.server ("" for none).
 */
public final class KeyedStores {
  public static void main(String[] arguments) throws Exception {
    Duration kept = Duration.ofDays(3_650);
    StreamsBuilder builder = new StreamsBuilder();
    KStream<String, String> input = builder.stream(arguments[2], Consumed.with(Serdes.String(), Serdes.String()));
    builder.globalTable(arguments[3], Consumed.with(Serdes.String(), Serdes.String()), Materialized.as("everywhere"));
    var byKey = input.groupByKey(Grouped.with(Serdes.String(), Serdes.String()));
    byKey.count(Materialized.as("totals"));
    byKey
        .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMinutes(1), kept))
        .count(Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("minutes").withRetention(kept.plusDays(1)));
    byKey
        .windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofMinutes(5), kept))
        .count(Materialized.<String, Long, SessionStore<Bytes, byte[]>>as("sessions").withRetention(kept.plusDays(1)));
    input.toTable(
        Materialized.<String, String>as(Stores.persistentVersionedKeyValueStore("versions", kept))
            .withKeySerde(Serdes.String())
            .withValueSerde(Serdes.String()));
    var byNumber = input.map((key, value) -> new KeyValue<>(Long.parseLong(value), key)).groupByKey(Grouped.with(Serdes.Long(), Serdes.String()));
    byNumber.count(Materialized.as("numbers"));
    byNumber.reduce((before, now) -> now, Materialized.as("unregistered"));
    Properties settings = new Properties();
    settings.put("num.standby.replicas", "1");
    settings.put("bootstrap.servers", arguments[0]);
    settings.put("application.id", arguments[1]);
    settings.put("state.dir", arguments[4]);
    settings.put("commit.interval.ms", 100);
    settings.put("auto.offset.reset", "earliest");
    settings.put("replication.factor", "1");
    settings.put("session.timeout.ms", "6000");
    settings.put("heartbeat.interval.ms", "2000");
    settings.put("acceptable.recovery.lag", Long.toString(Long.MAX_VALUE));
    if (!arguments[6].isEmpty()) {
      settings.put("application.server", arguments[6]);
    }
    KafkaStreams streams = new KafkaStreams(builder.build(), settings);
    RecoveryEndpoints endpoints = new RecoveryEndpoints(streams, Integer.parseInt(arguments[5]), 100);
    endpoints.keys("numbers", new LongSerializer(), Long::parseLong);
    streams.start();
    endpoints.start();
  }
}
