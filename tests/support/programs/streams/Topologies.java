import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.function.Consumer;
import java.util.regex.Pattern;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Aggregator;
import org.apache.kafka.streams.kstream.Branched;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TableJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.Stores;

/** Versions of small applications, of which only the descriptions are wanted: all of them on stdout, each behind a line with its name. */
public final class Topologies {
  private static final Consumed<String, String> TEXT = Consumed.with(Serdes.String(), Serdes.String());
  private static final Duration MINUTE = Duration.ofMinutes(1);
  private static final Map<String, Consumer<StreamsBuilder>> ALL = new TreeMap<>();

  public static void main(String[] args) {
    streamJoins();
    tables();
    foreignKeys();
    cogroups();
    counts();
    inputs();
    ALL.forEach((name, topology) -> {
      StreamsBuilder builder = new StreamsBuilder();
      topology.accept(builder);
      Properties settings = new Properties();
      if (name.endsWith("optimized")) {
        settings.put("topology.optimization", "all");
      }
      System.out.print("=== " + name + "\n" + builder.build(settings).describe());
    });
  }

  private static KStream<String, String> in(StreamsBuilder builder, String topic) {
    return builder.stream(topic, TEXT);
  }

  private static StreamJoined<String, String, String> joined(String name) {
    StreamJoined<String, String, String> found = StreamJoined.with(Serdes.String(), Serdes.String(), Serdes.String());
    return name == null ? found : found.withName(name).withStoreName("window");
  }

  private static KStream<String, String> join(KStream<String, String> left, KStream<String, String> right, String name) {
    return left.join(right, (one, other) -> one + other, JoinWindows.ofTimeDifferenceWithNoGrace(MINUTE), joined(name));
  }

  private static void streamJoins() {
    ALL.put("streams", builder -> join(in(builder, "left"), in(builder, "right"), "join").to("out"));
    ALL.put("streams-swapped", builder -> {
      KStream<String, String> left = in(builder, "left");
      join(in(builder, "right"), left, "join").to("out");
    });
    ALL.put("streams-renamed", builder -> join(in(builder, "left"), in(builder, "right"), "joined").to("out"));
    ALL.put("streams-renamed-swapped", builder -> join(in(builder, "right"), in(builder, "left"), "joined").to("out"));
    ALL.put("streams-filtered", builder ->
        join(in(builder, "left").filter((key, value) -> true, Named.as("some")), in(builder, "right").mapValues(value -> value), "join").to("out"));
    ALL.put("streams-turned-around", builder -> {
      KStream<String, String> right = in(builder, "right");
      join(in(builder, "left"), right, "join").to("out");
    });
    ALL.put("streams-other", builder -> join(in(builder, "left"), in(builder, "other"), "join").to("out"));
    ALL.put("streams-numbered", builder -> join(in(builder, "left"), in(builder, "right"), null).to("out"));
    ALL.put("streams-numbered-swapped", builder -> {
      KStream<String, String> left = in(builder, "left");
      join(in(builder, "right"), left, null).to("out");
    });
    for (String suffix : new String[] {"", "-swapped"}) {
      ALL.put("streams-outer" + suffix, builder -> {
        KStream<String, String> left = in(builder, "left");
        KStream<String, String> right = in(builder, "right");
        KStream<String, String> first = suffix.isEmpty() ? left : right;
        first.outerJoin(suffix.isEmpty() ? right : left, (one, other) -> one, JoinWindows.ofTimeDifferenceWithNoGrace(MINUTE), joined("join")).to("out");
      });
      ALL.put("streams-rekeyed" + suffix, builder -> {
        KStream<String, String> left = in(builder, "left").selectKey((key, value) -> value, Named.as("by-value"));
        KStream<String, String> right = in(builder, "right").selectKey((key, value) -> value, Named.as("by-other-value"));
        join(suffix.isEmpty() ? left : right, suffix.isEmpty() ? right : left, "join").to("out");
      });
      ALL.put("streams-counted" + suffix, builder -> {
        KStream<String, String> left = in(builder, "left");
        KStream<String, String> right = in(builder, "right");
        join(suffix.isEmpty() ? left : right, suffix.isEmpty() ? right : left, "join")
            .groupBy((key, value) -> value, Grouped.as("by-value"))
            .count(Materialized.as("totals"));
      });
    }
  }

  private static KTable<String, String> table(StreamsBuilder builder, String topic, String store) {
    return builder.table(topic, TEXT, Materialized.as(store));
  }

  private static void joinTables(KTable<String, String> left, KTable<String, String> right, String name) {
    left.join(right, (one, other) -> one + other, Named.as(name), Materialized.as("joined")).toStream().to("out");
  }

  private static void tables() {
    ALL.put("tables", builder -> joinTables(table(builder, "left", "left"), table(builder, "right", "right"), "join"));
    ALL.put("tables-optimized", ALL.get("tables"));
    ALL.put("tables-swapped", builder -> {
      KTable<String, String> left = table(builder, "left", "left");
      joinTables(table(builder, "right", "right"), left, "join");
    });
    ALL.put("tables-renamed", builder -> joinTables(table(builder, "left", "left"), table(builder, "right", "right"), "joined-by-key"));
    ALL.put("tables-renamed-swapped", builder -> joinTables(table(builder, "right", "right"), table(builder, "left", "left"), "joined-by-key"));
    ALL.put("tables-other", builder -> joinTables(table(builder, "other", "left"), table(builder, "right", "right"), "join"));
    ALL.put("tables-exchanged", builder -> joinTables(table(builder, "right", "left"), table(builder, "left", "right"), "join"));
    ALL.put("tables-numbered", builder -> {
      KTable<String, String> left = table(builder, "left", "left");
      left.join(table(builder, "right", "right"), (one, other) -> one, Materialized.as("joined"));
    });
    ALL.put("tables-numbered-swapped", builder -> {
      KTable<String, String> right = table(builder, "right", "right");
      right.join(table(builder, "left", "left"), (one, other) -> one, Materialized.as("joined"));
    });
    ALL.put("tables-filtered", builder -> {
      KTable<String, String> left = table(builder, "left", "left");
      joinTables(left.filter((key, value) -> true), table(builder, "right", "right").mapValues(value -> value, Named.as("short")), "join");
    });
    ALL.put("tables-in-three", builder -> {
      KTable<String, String> left = table(builder, "left", "left");
      left.join(table(builder, "right", "right"), (one, other) -> one, Named.as("inner"))
          .join(table(builder, "other", "other"), (one, other) -> one, Named.as("join"), Materialized.as("joined"));
    });
    ALL.put("tables-in-three-swapped", builder -> {
      KTable<String, String> left = table(builder, "left", "left");
      table(builder, "right", "right").join(left, (one, other) -> one, Named.as("inner"))
          .join(table(builder, "other", "other"), (one, other) -> one, Named.as("join"), Materialized.as("joined"));
    });
    ALL.put("enriched", builder ->
        in(builder, "clicks").join(table(builder, "left", "left"), (one, other) -> one, Joined.<String, String, String>as("enrich")).to("out"));
    ALL.put("enriched-from-other", builder ->
        in(builder, "clicks").join(table(builder, "other", "left"), (one, other) -> one, Joined.<String, String, String>as("enrich")).to("out"));
    ALL.put("not-enriched", builder -> table(builder, "left", "left").toStream().to("out"));
    ALL.put("enriched-numbered", builder -> in(builder, "clicks").join(table(builder, "left", "left"), (one, other) -> one).to("out"));
    ALL.put("global", builder -> {
      in(builder, "clicks").join(builder.globalTable("left", TEXT, Materialized.as("left")), (key, value) -> key, (one, other) -> one)
          .groupByKey().count(Materialized.as("totals"));
    });
    ALL.put("global-from-other", builder -> {
      in(builder, "clicks").join(builder.globalTable("other", TEXT, Materialized.as("left")), (key, value) -> key, (one, other) -> one)
          .groupByKey().count(Materialized.as("totals"));
    });
    ALL.put("versioned", builder ->
        builder.table("left", TEXT, Materialized.as(Stores.persistentVersionedKeyValueStore("left", Duration.ofDays(1)))).toStream().to("out"));
    ALL.put("versioned-filtered", builder ->
        builder.table("left", TEXT, Materialized.as(Stores.persistentVersionedKeyValueStore("left", Duration.ofDays(1))))
            .toStream().filter((key, value) -> true, Named.as("some")).to("out"));
  }

  private static void foreignKeys() {
    for (String suffix : new String[] {"", "-swapped"}) {
      ALL.put("foreign" + suffix, builder -> {
        KTable<String, String> left = table(builder, "left", "left");
        KTable<String, String> right = table(builder, "right", "right");
        (suffix.isEmpty() ? left : right)
            .join(suffix.isEmpty() ? right : left, value -> value, (one, other) -> one, TableJoined.as("foreign"), Materialized.as("joined"));
      });
      ALL.put("foreign-numbered" + suffix, builder -> {
        KTable<String, String> left = table(builder, "left", "left");
        KTable<String, String> right = table(builder, "right", "right");
        (suffix.isEmpty() ? left : right).join(suffix.isEmpty() ? right : left, value -> value, (one, other) -> one, Materialized.as("joined"));
      });
    }
    ALL.put("foreign-with-output", builder -> {
      in(builder, "clicks").to("more");
      KTable<String, String> left = table(builder, "left", "left");
      left.join(table(builder, "right", "right"), value -> value, (one, other) -> one, TableJoined.as("foreign"), Materialized.as("joined"))
          .toStream().to("out");
    });
  }

  private static KGroupedStream<String, String> byKey(StreamsBuilder builder, String topic) {
    return in(builder, topic).groupByKey();
  }

  private static KGroupedStream<String, String> byValue(StreamsBuilder builder, String topic, String name) {
    return in(builder, topic).groupBy((key, value) -> value, Grouped.as(name));
  }

  private static void cogroup(KGroupedStream<String, String> first, KGroupedStream<String, String> second, KGroupedStream<String, String> third) {
    Aggregator<String, String, String> adding = (key, value, sum) -> sum + value;
    var found = first.cogroup(adding).cogroup(second, adding);
    (third == null ? found : found.cogroup(third, adding)).aggregate(() -> "", Named.as("sum"), Materialized.as("totals"));
  }

  private static void cogroups() {
    ALL.put("cogrouped", builder -> cogroup(byKey(builder, "left"), byKey(builder, "right"), null));
    ALL.put("cogrouped-anew", builder -> cogroup(byKey(builder, "left"), byValue(builder, "right", "by-value"), null));
    ALL.put("cogrouped-with-third", builder -> cogroup(byKey(builder, "left"), byKey(builder, "right"), byKey(builder, "other")));
    ALL.put("cogrouped-swapped", builder -> cogroup(byKey(builder, "right"), byKey(builder, "left"), null));
    ALL.put("cogrouped-filtered", builder ->
        cogroup(in(builder, "left").filter((key, value) -> true, Named.as("some")).groupByKey(), byKey(builder, "right"), null));
    ALL.put("cogrouped-numbered", builder ->
        byKey(builder, "left").<String>cogroup((key, value, sum) -> sum).cogroup(byKey(builder, "right"), (key, value, sum) -> sum)
            .aggregate(() -> "", Materialized.as("totals")));
    ALL.put("cogrouped-numbered-anew", builder ->
        byKey(builder, "left").<String>cogroup((key, value, sum) -> sum).cogroup(byValue(builder, "right", "by-value"), (key, value, sum) -> sum)
            .aggregate(() -> "", Materialized.as("totals")));
  }

  private static void counts() {
    ALL.put("counted", builder -> byKey(builder, "left").count(Materialized.as("totals")));
    ALL.put("counted-by-name", builder -> byKey(builder, "left").count(Named.as("count"), Materialized.as("totals")));
    ALL.put("counted-filtered", builder -> in(builder, "left").filter((key, value) -> true).peek((key, value) -> {}).groupByKey().count(Materialized.as("totals")));
    ALL.put("counted-with-output", builder -> {
      in(builder, "clicks").mapValues(value -> value).to("more");
      byKey(builder, "left").count(Materialized.as("totals")).toStream().to("out");
    });
    ALL.put("counted-by-value", builder -> byValue(builder, "left", "by-value").count(Materialized.as("totals")));
    ALL.put("counted-by-value-filtered", builder ->
        in(builder, "left").filter((key, value) -> true).groupBy((key, value) -> value, Grouped.as("by-value")).count(Materialized.as("totals")));
    ALL.put("counted-by-value-numbered", builder -> in(builder, "left").groupBy((key, value) -> value).count(Materialized.as("totals")));
    ALL.put("reduced", builder -> byKey(builder, "left").reduce((one, other) -> one, Materialized.as("totals")));
    ALL.put("reduced-to-more", builder -> byKey(builder, "left").reduce((one, other) -> one, Materialized.as("totals")).toStream().to("more"));
    ALL.put("windowed", builder ->
        byKey(builder, "left").windowedBy(TimeWindows.ofSizeWithNoGrace(MINUTE)).count(Materialized.as("totals"))
            .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()).withName("closed")).toStream().to("out"));
    ALL.put("windowed-filtered", builder ->
        in(builder, "left").filter((key, value) -> true).groupByKey().windowedBy(TimeWindows.ofSizeWithNoGrace(MINUTE)).count(Materialized.as("totals"))
            .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()).withName("closed"))
            .toStream().filter((key, value) -> true).to("out"));
    for (String name : new String[] {"small", "little"}) {
      ALL.put("branched-" + name, builder -> {
        Map<String, KStream<String, String>> found = in(builder, "left").split(Named.as("by-size-"))
            .branch((key, value) -> true, Branched.as(name)).defaultBranch(Branched.as("large"));
        found.get("by-size-" + name).groupByKey().count(Materialized.as("totals"));
        found.get("by-size-large").to("out");
      });
    }
    for (String suffix : new String[] {"", "-optimized"}) {
      ALL.put("counted-twice" + suffix, builder -> {
        KStream<String, String> keyed = in(builder, "left").selectKey((key, value) -> value);
        keyed.groupByKey(Grouped.as("one")).count(Materialized.as("totals"));
        keyed.groupByKey(Grouped.as("two")).reduce((one, other) -> one, Materialized.as("newest"));
      });
    }
    ALL.put("apart", builder -> {
      byKey(builder, "left").count(Materialized.as("totals"));
      byKey(builder, "right").count(Materialized.as("others"));
    });
    ALL.put("apart-in-other-order", builder -> {
      byKey(builder, "right").count(Materialized.as("others"));
      byKey(builder, "left").count(Materialized.as("totals"));
    });
    ALL.put("apart-exchanged", builder -> {
      byKey(builder, "right").count(Materialized.as("totals"));
      byKey(builder, "left").count(Materialized.as("others"));
    });
    ALL.put("through", builder -> in(builder, "left").repartition(Repartitioned.as("by")).groupByKey().count(Materialized.as("totals")));
  }

  private static void inputs() {
    for (String pattern : new String[] {"orders-.*", "payments-.*", "(orders|payments)-.*", "orders-(?!eu).*"}) {
      ALL.put("pattern " + pattern, builder ->
          builder.stream(Pattern.compile(pattern), TEXT).groupByKey().count(Materialized.as("totals")));
    }
    ALL.put("other-beside-pattern", builder -> {
      builder.stream(Pattern.compile("payments-.*"), TEXT).to("out");
      byKey(builder, "right").count(Materialized.as("others"));
    });
  }
}
