import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Properties;
import java.util.regex.Pattern;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Versions of one application, which counts the records of each key. Arguments: {@code describe}, a version, input and output; or a file with the name of the version
 * to run, brokers, application id, input, output, state directory and port.
 */
public final class Versions {
  private static final int COMMIT_INTERVAL_MS = 100;
  private static final Consumed<String, String> TEXT = Consumed.with(Serdes.String(), Serdes.String());

  public static void main(String[] args) throws Exception {
    if (args[0].equals("describe")) {
      System.out.print(topology(args[1], args[2], args[3]).describe());
      return;
    }
    Topology topology = topology(Files.readString(Path.of(args[0])).strip(), args[3], args[4]);
    Properties settings = new Properties();
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[1]);
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, args[2]);
    settings.put(StreamsConfig.STATE_DIR_CONFIG, args[5]);
    settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
    settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, COMMIT_INTERVAL_MS);
    settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
    settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
    settings.put("statestore.cache.max.bytes", "0");
    settings.put("auto.offset.reset", "earliest");
    settings.put("session.timeout.ms", "6000");
    settings.put("heartbeat.interval.ms", "2000");
    KafkaStreams streams = new KafkaStreams(topology, settings);
    streams.setUncaughtExceptionHandler(error -> {
      System.out.println("failed: " + error);
      return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
    });
    RecoveryEndpoints endpoints = new RecoveryEndpoints(streams, Integer.parseInt(args[6]), COMMIT_INTERVAL_MS, topology);
    streams.start();
    endpoints.start();
    while (streams.state() != KafkaStreams.State.ERROR) {
      Thread.sleep(200);
    }
    Runtime.getRuntime().halt(1);
  }

  private static Topology topology(String version, String input, String output) {
    StreamsBuilder builder = new StreamsBuilder();
    KStream<String, String> in = builder.stream(input, TEXT);
    switch (version) {
      case "counted" -> written(counted(in, "totals"), output);
      case "added" -> {
        KTable<String, Long> totals = counted(in, "totals");
        totals.filter((key, count) -> count > 0, Named.as("some"));
        written(totals, output);
      }
      // The same and a branch with a repartition topic and a store of its own.
      case "branched" -> {
        written(counted(in, "totals"), output);
        in.filter((key, value) -> key.equals("a"), Named.as("only-a"))
            .groupBy((key, value) -> value, Grouped.as("by-value"))
            .count(Named.as("count-by-value"), Materialized.as("by-value"));
      }
      case "renamed" -> written(counted(in, "sums"), output);
      case "regrouped" -> written(in.groupBy((key, value) -> value).count(Materialized.as("totals")), output);
      // Each record counts twice; or once by its key and once by its value, with all names as before.
      case "cogrouped" -> written(both(in.groupByKey(), in.filter((key, value) -> true).groupByKey()), output);
      case "cogrouped-anew" -> written(both(in.groupByKey(), in.groupBy((key, value) -> value, Grouped.as("by-value"))), output);
      case "failing" -> written(counted(in.peek((key, value) -> fail()), "totals"), output);
      case "slow" -> written(counted(in.peek((key, value) -> rest()), "totals"), output);
      // Named by numbers: a count, then the sum of the lengths of values.
      case "numbered" -> {
        in.groupByKey().count();
        lengths(in);
      }
      case "behind-an-operator" -> lengths(in.filter((key, value) -> true));
      case "without-the-first" -> lengths(in);
      // For their descriptions only.
      case "everything" -> everything(builder, in);
      case "merged" -> written(counted(in.merge(builder.stream("more", TEXT)), "totals"), output);
      case "by-a", "by-b" -> {
        KTable<String, Long> totals = in.groupBy((key, value) -> value, Grouped.as(version)).count(Materialized.as("totals"));
        builder.stream("clicks", TEXT).join(totals, (click, total) -> click + total).to(output);
      }
      case "of-more" -> written(builder.stream("more", TEXT).groupBy((key, value) -> value).count(Materialized.as("totals")), output);
      case "through" -> written(in.repartition(Repartitioned.as("by")).groupByKey().count(Materialized.as("totals")), output);
      // With a number of its own.
      case "through-2", "through-5" -> {
        var by = Repartitioned.<String, String>as("by").withNumberOfPartitions(version.charAt(version.length() - 1) - '0');
        written(in.repartition(by).groupByKey().count(Materialized.as("totals")), output);
      }
      case "through-by-value" ->
          written(in.selectKey((key, value) -> value).repartition(Repartitioned.as("by")).groupByKey().count(Materialized.as("totals")), output);
      case "through-some" ->
          written(in.filter((key, value) -> true).repartition(Repartitioned.as("by")).groupByKey().count(Materialized.as("totals")), output);
      default -> throw new IllegalArgumentException("no version " + version);
    }
    return builder.build();
  }

  private static void everything(StreamsBuilder builder, KStream<String, String> in) {
    builder.globalTable("global", TEXT);
    in.groupBy((key, value) -> value)
        .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMinutes(1)))
        .count()
        .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))
        .toStream((window, count) -> window.key())
        .to((key, value, context) -> key, Produced.with(Serdes.String(), Serdes.Long()));
    builder.table("left", TEXT).join(builder.table("right", TEXT, Materialized.as("right")), value -> value, (one, other) -> one);
    in.outerJoin(
        builder.stream("other", TEXT),
        (one, other) -> one,
        JoinWindows.ofTimeDifferenceWithNoGrace(Duration.ofMinutes(1)),
        StreamJoined.with(Serdes.String(), Serdes.String(), Serdes.String()));
    builder.stream(Pattern.compile("[a-c]+[xy]"), TEXT).repartition(Repartitioned.as("mine")).to("out");
  }

  private static KTable<String, Long> counted(KStream<String, String> in, String store) {
    return in.groupByKey(Grouped.as("by-key")).count(Named.as("count"), Materialized.as(store));
  }

  private static KTable<String, Long> both(KGroupedStream<String, String> one, KGroupedStream<String, String> other) {
    return one.<Long>cogroup((key, value, count) -> count + 1)
        .cogroup(other, (key, value, count) -> count + 1)
        .aggregate(() -> 0L, Named.as("sum"), Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("totals").withValueSerde(Serdes.Long()));
  }

  private static void lengths(KStream<String, String> in) {
    in.groupByKey().aggregate(() -> 0L, (key, value, sum) -> sum + value.length(), Materialized.with(Serdes.String(), Serdes.Long()));
  }

  private static void written(KTable<String, Long> counts, String output) {
    counts.toStream(Named.as("counts-out")).to(output, Produced.with(Serdes.String(), Serdes.Long()));
  }

  private static void fail() {
    throw new IllegalStateException("this version cannot process a record");
  }

  private static void rest() {
    try {
      Thread.sleep(500);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
  }
}
