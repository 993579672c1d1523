import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Materialized;

/** The smallest application with the endpoints: it counts the records of each key. Arguments: brokers, application id, input, state directory, port. */
public final class Totals {
  public static void main(String[] arguments) throws Exception {
    int commitIntervalMs = 100;
    StreamsBuilder builder = new StreamsBuilder();
    builder.<String, String>stream(arguments[2]).groupByKey().count(Materialized.as("totals"));
    Properties settings = new Properties();
    settings.put("bootstrap.servers", arguments[0]);
    settings.put("application.id", arguments[1]);
    settings.put("state.dir", arguments[3]);
    settings.put("processing.guarantee", "exactly_once_v2");
    settings.put("commit.interval.ms", commitIntervalMs);
    settings.put("auto.offset.reset", "earliest");
    settings.put("replication.factor", "1");
    // Where this instance is asked, so that each of them can say who has a key.
    settings.put("application.server", "127.0.0.1:" + arguments[4]);
    settings.put("default.key.serde", Serdes.StringSerde.class);
    settings.put("default.value.serde", Serdes.StringSerde.class);
    Topology topology = builder.build();
    KafkaStreams streams = new KafkaStreams(topology, settings);
    RecoveryEndpoints endpoints = new RecoveryEndpoints(streams, Integer.parseInt(arguments[4]), commitIntervalMs, topology);
    streams.start();
    endpoints.start();
  }
}
