import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.coordinator.group.api.streams.StreamsGroupTopologyDescription;
import org.apache.kafka.coordinator.group.api.streams.StreamsGroupTopologyDescriptionPlugin;

/** Keeps the topologies that applications describe in memory, so that the broker can tell them (KIP-1331). */
public final class TopologyMemory implements StreamsGroupTopologyDescriptionPlugin {
  private final Map<String, StreamsGroupTopologyDescription> known = new ConcurrentHashMap<>();

  @Override
  public void configure(Map<String, ?> settings) {}

  @Override
  public CompletableFuture<Void> setTopology(String group, int epoch, StreamsGroupTopologyDescription topology) {
    known.put(group, topology);
    return CompletableFuture.completedFuture(null);
  }

  @Override
  public CompletableFuture<Void> deleteTopology(String group) {
    known.remove(group);
    return CompletableFuture.completedFuture(null);
  }

  @Override
  public CompletableFuture<StreamsGroupTopologyDescription> getTopology(String group, int epoch) {
    return CompletableFuture.completedFuture(known.get(group));
  }

  @Override
  public void close() {}
}
