import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.lang.reflect.Method;
import java.util.List;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.SessionWindowedSerializer;
import org.apache.kafka.streams.kstream.TimeWindowedSerializer;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.kstream.internals.TimeWindow;
import org.apache.kafka.streams.kstream.internals.WindowedStreamPartitioner;
import org.apache.kafka.streams.kstream.internals.foreignkeyjoin.CombinedKeySchema;
import org.apache.kafka.streams.state.internals.PrefixedWindowKeySchemas.TimeFirstWindowKeySchema;
import org.apache.kafka.streams.state.internals.SessionKeySchema;
import org.apache.kafka.streams.state.internals.TimestampedKeyAndJoinSide;
import org.apache.kafka.streams.state.internals.TimestampedKeyAndJoinSideSerde;
import org.apache.kafka.streams.state.internals.WindowKeySchema;

/**
 * For each number of partitions, time and key of the standard input: the partition of the key by Kafka's own partitioner, and the bytes that each kind of store
 * and topic of Kafka Streams writes for it, made by its own classes.
 */
public class Placing {

  public static void main(String[] args) throws Exception {
    DataInputStream in = new DataInputStream(new BufferedInputStream(System.in));
    DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out));
    var subscriptions = new CombinedKeySchema<>(() -> "", Serdes.ByteArray(), () -> "", Serdes.ByteArray());
    Method combined = CombinedKeySchema.class.getDeclaredMethod("toBytes", Object.class, Object.class, Headers.class);
    combined.setAccessible(true);
    var shared = new TimestampedKeyAndJoinSideSerde<>(Serdes.ByteArray()).serializer();
    var windowed = new TimeWindowedSerializer<>(new ByteArraySerializer());
    var sessions = new SessionWindowedSerializer<>(new ByteArraySerializer());
    var partitioner = new WindowedStreamPartitioner<byte[], byte[]>(windowed);
    for (int partitions = next(in); partitions > 0; partitions = next(in)) {
      long time = in.readLong();
      byte[] key = in.readNBytes(in.readInt());
      Bytes bytes = Bytes.wrap(key);
      int partition = BuiltInPartitioner.partitionForKey(key, partitions);
      var window = new Windowed<>(key, new TimeWindow(time, time + 1_000));
      var session = new Windowed<>(key, new SessionWindow(time, time + 7));
      if (!partitioner.partitions("", window, null, new RecordHeaders(), partitions).get().equals(java.util.Set.of(partition))) {
        throw new IllegalStateException("records of windows are placed by another rule");
      }
      out.writeInt(partition);
      for (byte[] one : List.of(
          key,
          windowed.serialize("", window),
          WindowKeySchema.toStoreKeyBinary(bytes, time, partition).get(),
          SessionKeySchema.toBinary(bytes, time, time + 7).get(),
          sessions.serialize("", session),
          ((Bytes) combined.invoke(subscriptions, key, "primary".getBytes(), new RecordHeaders())).get(),
          shared.serialize("", new RecordHeaders(), time % 2 == 0 ? TimestampedKeyAndJoinSide.makeLeft(key, time) : TimestampedKeyAndJoinSide.makeRight(key, time)),
          TimeFirstWindowKeySchema.toStoreKeyBinary(bytes, time, partition).get())) {
        out.writeInt(one.length);
        out.write(one);
      }
    }
    out.flush();
  }

  private static int next(DataInputStream in) throws IOException {
    try {
      return in.readInt();
    } catch (EOFException over) {
      return 0;
    }
  }
}
