package com.example.recovery;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.ThreadMetadata;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.UnknownStateStoreException;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.http.ResponseEntity;
import org.springframework.kafka.config.StreamsBuilderFactoryBean;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.bind.annotation.RestController;

/** The endpoints for an application of Spring for Apache Kafka. Protect these paths: whoever reaches them can pause the application and read its state. */
@RestController
public class RecoveryController {
  private static final Duration CLOSE = Duration.ofSeconds(30);
  private final StreamsBuilderFactoryBean factory;
  private final long commitIntervalMs;
  private final KeyQueries queries;
  private volatile boolean paused;

  public RecoveryController(
      StreamsBuilderFactoryBean factory, @Value("${spring.kafka.streams.properties.commit.interval.ms:30000}") long commitIntervalMs) {
    this.factory = factory;
    this.commitIntervalMs = commitIntervalMs;
    this.queries = new KeyQueries(factory::getKafkaStreams);
  }

  /** How the text of a key in a path becomes a key of this store. Keys of other stores are text, as {@code Serdes.String()} writes it. */
  public <K> void keys(String store, Serializer<K> serializer, Function<String, K> parse) {
    queries.keys(store, serializer, parse);
  }

  @GetMapping("/health")
  public ResponseEntity<Map<String, Object>> health() {
    KafkaStreams streams = factory.getKafkaStreams();
    if (streams == null) {
      return ResponseEntity.status(503).body(Map.of("state", "NOT_RUNNING"));
    }
    int standby = streams.metadataForLocalThreads().stream().mapToInt(thread -> thread.standbyTasks().size()).sum();
    // By these the members of the group are known to be its own.
    List<String> clients = streams.metadataForLocalThreads().stream().map(ThreadMetadata::consumerClientId).toList();
    Map<String, Object> body =
        Map.of(
            "state", streams.state().name(), "paused", paused, "standby_tasks", standby, "commit_interval_ms", commitIntervalMs, "client_ids", clients);
    return ResponseEntity.status(streams.state().isRunningOrRebalancing() ? 200 : 503).body(body);
  }

  @PostMapping("/pause")
  public Map<String, Object> pause() {
    factory.getKafkaStreams().pause();
    paused = true;
    return Map.of("paused", true);
  }

  @PostMapping("/resume")
  public Map<String, Object> resume() {
    factory.getKafkaStreams().resume();
    paused = false;
    return Map.of("paused", false);
  }

  /** True when everything was flushed and committed. The program goes on until it gets SIGTERM. */
  @PostMapping("/close")
  public Map<String, Object> close() {
    KafkaStreams streams = factory.getKafkaStreams();
    return Map.of("closed", streams.close(CLOSE) && streams.state() == KafkaStreams.State.NOT_RUNNING);
  }

  @GetMapping("/topology")
  public Map<String, Object> topology() {
    return Map.of("topology", factory.getTopology().describe().toString());
  }

  @GetMapping("/state/{store}")
  public ResponseEntity<Map<String, Object>> state(@PathVariable("store") String store) {
    Map<String, Object> found = new LinkedHashMap<>();
    try {
      ReadOnlyKeyValueStore<Object, Object> values =
          factory.getKafkaStreams().store(StoreQueryParameters.fromNameAndType(store, QueryableStoreTypes.keyValueStore()));
      try (KeyValueIterator<Object, Object> all = values.all()) {
        all.forEachRemaining(entry -> found.put(String.valueOf(entry.key), entry.value));
      }
    } catch (UnknownStateStoreException unknown) {
      return ResponseEntity.notFound().build();
    } catch (InvalidStateStoreException | IllegalStateException busy) {
      // One that runs has nothing of the store: there are more instances than partitions.
      if (factory.getKafkaStreams().state() != KafkaStreams.State.RUNNING || !found.isEmpty()) {
        return ResponseEntity.status(503).body(Map.of("error", String.valueOf(busy.getMessage())));
      }
    }
    return ResponseEntity.ok(found);
  }

  /** Which instance is active for a key, by {@code spring.kafka.streams.properties.application.server} of each. */
  @GetMapping("/owner/{store}/{key}")
  public ResponseEntity<Map<String, Object>> owner(@PathVariable("store") String store, @PathVariable("key") String key) {
    return answer(queries.owner(store, key));
  }

  @GetMapping("/state/{store}/{key}")
  public ResponseEntity<Map<String, Object>> state(
      @PathVariable("store") String store, @PathVariable("key") String key, @RequestParam Map<String, String> parameters) {
    return answer(queries.value(store, key, parameters));
  }

  /** Removes the local state of an application that is closed. Kafka Streams refuses it while it runs. */
  @PostMapping("/cleanup")
  public ResponseEntity<Map<String, Object>> cleanUp() {
    try {
      factory.getKafkaStreams().cleanUp();
    } catch (IllegalStateException running) {
      return ResponseEntity.status(409).body(Map.of("error", String.valueOf(running.getMessage())));
    }
    return ResponseEntity.ok(Map.of("cleaned", true));
  }

  private static ResponseEntity<Map<String, Object>> answer(KeyQueries.Answer found) {
    return ResponseEntity.status(found.status()).body(found.body());
  }
}
