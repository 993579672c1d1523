package com.example.recovery;

import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyQueryMetadata;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.InvalidStateStorePartitionException;
import org.apache.kafka.streams.errors.UnknownStateStoreException;
import org.apache.kafka.streams.kstream.Window;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.query.FailureReason;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.query.StateQueryRequest;
import org.apache.kafka.streams.query.VersionedKeyQuery;
import org.apache.kafka.streams.state.HostInfo;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.QueryableStoreType;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import org.apache.kafka.streams.state.ReadOnlySessionStore;
import org.apache.kafka.streams.state.ReadOnlyWindowStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.WindowStoreIterator;

/**
 * Answers what one key of a store has, and which instance has it: {@code GET /state/{store}/{key}} and {@code GET /owner/{store}/{key}}. Copy this file too.
 *
 * <p>An instance answers only for partitions that it is active for. What it does not have is not "no such key": it answers 421, and whoever asks goes to
 * the owner. For owners to be named, set {@code application.server} to host and port at which this instance is asked.
 */
public final class KeyQueries {
  private static final int MOST_WINDOWS = 1_000;
  private static final int EVERY = -1;
  private static final String NO_ADDRESS = "application.server is not set, so no instance can be named, and nobody knows the partition of a key";
  private final Supplier<KafkaStreams> application;
  private final Map<String, Keys<?>> keys = new ConcurrentHashMap<>();

  public KeyQueries(Supplier<KafkaStreams> application) {
    this.application = application;
  }

  /** A status of HTTP, and what is answered with it as JSON. */
  public record Answer(int status, Map<String, Object> body) {}

  private record Keys<K>(Serializer<K> serializer, Function<String, K> parse) {
    KeyQueryMetadata owner(KafkaStreams streams, String store, String key) {
      return streams.queryMetadataForKey(store, parse.apply(key), serializer);
    }
  }

  /** How the text of a key becomes a key of this store, and how that is written as bytes. Keys of other stores are text. */
  public <K> void keys(String store, Serializer<K> serializer, Function<String, K> parse) {
    keys.put(store, new Keys<>(serializer, parse));
  }

  /** Which instance is active for a key, and which only stand by. */
  public Answer owner(String store, String key) {
    return answered(store, key, (streams, found) -> {
      if (found.activeHost().equals(HostInfo.unavailable())) {
        return new Answer(404, error(NO_ADDRESS));
      }
      List<Map<String, Object>> standbys = found.standbyHosts().stream().map(KeyQueries::address).toList();
      Map<String, Object> body = address(found.activeHost());
      body.put("partition", found.partition());
      body.put("standbys", standbys);
      return new Answer(200, body);
    });
  }

  /** What a key has. Parameters: {@code from} and {@code to} bound windows and sessions, {@code asof} a versioned store; all in milliseconds. */
  public Answer value(String store, String key, Map<String, String> parameters) {
    return answered(store, key, (streams, found) -> {
      Object parsed = parserOf(store).parse().apply(key);
      Instant from = Instant.ofEpochMilli(Long.parseLong(parameters.getOrDefault("from", "0")));
      Instant to = Instant.ofEpochMilli(Long.parseLong(parameters.getOrDefault("to", Long.toString(Long.MAX_VALUE))));
      String asOf = parameters.get("asof");
      Instant moment = asOf == null ? null : Instant.ofEpochMilli(Long.parseLong(asOf));
      boolean here = true;
      try {
        Map<String, Object> body = new Store(streams, store, found.partition()).read(parsed, from, to, moment);
        if (Boolean.TRUE.equals(body.get("found"))) {
          return new Answer(200, body);
        }
      } catch (InvalidStateStorePartitionException elsewhere) {
        here = false;
      }
      // Where a producer chooses partitions in another way than Kafka's own partitioner, the key is in another one.
      try {
        Map<String, Object> body = new Store(streams, store, EVERY).read(parsed, from, to, moment);
        if (Boolean.TRUE.equals(body.get("found"))) {
          return new Answer(200, body);
        }
      } catch (InvalidStateStoreException nothingHere) {
        if (here || streams.state() != KafkaStreams.State.RUNNING) {
          throw nothingHere;
        }
      }
      return here ? new Answer(404, missing()) : new Answer(421, error("another instance has this key"));
    });
  }

  private interface Question {
    Answer answer(KafkaStreams streams, KeyQueryMetadata found);
  }

  private Answer answered(String store, String key, Question question) {
    KafkaStreams streams = application.get();
    try {
      if (streams == null) {
        return new Answer(503, error("Kafka Streams is not there yet"));
      }
      // Throws for a store that is not in the topology, whatever its kind.
      streams.store(StoreQueryParameters.fromNameAndType(store, QueryableStoreTypes.keyValueStore()));
      KeyQueryMetadata found = parserOf(store).owner(streams, store, key);
      // Kafka Streams never knows more than this when no instance has told its address.
      if (KeyQueryMetadata.NOT_AVAILABLE.equals(found) && streams.state() == KafkaStreams.State.RUNNING && streams.metadataForAllStreamsClients().isEmpty()) {
        return new Answer(404, error(NO_ADDRESS));
      }
      if (found == null || found.equals(KeyQueryMetadata.NOT_AVAILABLE)) {
        return new Answer(503, error("it is not known yet who has which key"));
      }
      return question.answer(streams, found);
    } catch (UnknownStateStoreException unknown) {
      return new Answer(404, error("no store " + store));
    } catch (InvalidStateStorePartitionException elsewhere) {
      return new Answer(421, error("another instance has this key"));
    } catch (InvalidStateStoreException | IllegalStateException busy) {
      return new Answer(503, error(String.valueOf(busy.getMessage())));
    } catch (IllegalArgumentException | ClassCastException wrong) {
      return new Answer(400, error("this is no key of the store, or a bound is no number: " + wrong.getMessage()));
    } catch (RuntimeException failed) {
      boolean wrong = failed.getCause() instanceof ClassCastException;
      return new Answer(wrong ? 400 : 500, error(wrong ? "keys of this store are no text: register how they are read" : String.valueOf(failed.getMessage())));
    }
  }

  private Keys<?> parserOf(String store) {
    Keys<?> known = keys.get(store);
    return known == null ? new Keys<>(new StringSerializer(), text -> text) : known;
  }

  /** One partition of a store, or every one that is here. A global store has no partitions: each instance has all of it. */
  private record Store(KafkaStreams streams, String name, int partition) {
    private <T> T opened(QueryableStoreType<T> type) {
      StoreQueryParameters<T> wanted = StoreQueryParameters.fromNameAndType(name, type);
      return streams.store(partition < 0 ? wanted : wanted.withPartition(partition));
    }

    /** The store's kind is found by trying: a store does not tell it. */
    Map<String, Object> read(Object key, Instant from, Instant to, Instant asOf) {
      List<Supplier<Map<String, Object>>> kinds =
          List.of(() -> value(key), () -> windows(key, from, to), () -> sessions(key, from, to), () -> version(key, asOf));
      InvalidStateStoreException last = null;
      for (Supplier<Map<String, Object>> kind : kinds) {
        try {
          return kind.get();
        } catch (UnknownStateStoreException | InvalidStateStorePartitionException decided) {
          throw decided;
        } catch (InvalidStateStoreException anotherKindOrNotOpen) {
          last = anotherKindOrNotOpen;
        }
      }
      throw last;
    }

    Map<String, Object> value(Object key) {
      ReadOnlyKeyValueStore<Object, Object> values = opened(QueryableStoreTypes.keyValueStore());
      Object value = values.get(key);
      return value == null ? missing() : found("value", value);
    }

    Map<String, Object> windows(Object key, Instant from, Instant to) {
      ReadOnlyWindowStore<Object, Object> windows = opened(QueryableStoreTypes.windowStore());
      List<Map<String, Object>> found = new ArrayList<>();
      try (WindowStoreIterator<Object> each = windows.fetch(key, from, to)) {
        while (each.hasNext() && found.size() <= MOST_WINDOWS) {
          KeyValue<Long, Object> window = each.next();
          found.add(ordered("start", window.key, "value", window.value));
        }
      }
      return windowed(found);
    }

    Map<String, Object> sessions(Object key, Instant from, Instant to) {
      ReadOnlySessionStore<Object, Object> sessions = opened(QueryableStoreTypes.sessionStore());
      List<Map<String, Object>> found = new ArrayList<>();
      // Not findSessions: where a store has several partitions it is not supported.
      try (KeyValueIterator<Windowed<Object>, Object> each = sessions.fetch(key)) {
        while (each.hasNext() && found.size() <= MOST_WINDOWS) {
          KeyValue<Windowed<Object>, Object> session = each.next();
          Window window = session.key.window();
          if (window.end() >= from.toEpochMilli() && window.start() <= to.toEpochMilli()) {
            found.add(ordered("start", window.start(), "end", window.end(), "value", session.value));
          }
        }
      }
      return windowed(found);
    }

    Map<String, Object> version(Object key, Instant asOf) {
      VersionedKeyQuery<Object, Object> newest = VersionedKeyQuery.withKey(key);
      // Without that a standby answers too, with what it has so far.
      StateQueryRequest<VersionedRecord<Object>> request =
          StateQueryRequest.inStore(name).withQuery(asOf == null ? newest : newest.asOf(asOf)).requireActive();
      Collection<QueryResult<VersionedRecord<Object>>> results =
          streams.query(partition < 0 ? request.withAllPartitions() : request.withPartitions(Set.of(partition))).getPartitionResults().values();
      boolean active = false;
      VersionedRecord<Object> record = null;
      for (QueryResult<VersionedRecord<Object>> result : results) {
        if (result.isSuccess()) {
          active = true;
          record = record == null ? result.getResult() : record;
        } else if (result.getFailureReason() != FailureReason.NOT_ACTIVE && result.getFailureReason() != FailureReason.NOT_PRESENT) {
          throw new InvalidStateStoreException(result.getFailureMessage());
        }
      }
      if (!active) {
        throw new InvalidStateStorePartitionException("no partition of " + name + " that was asked for is here");
      }
      if (record == null) {
        return missing();
      }
      Map<String, Object> body = found("value", record.value());
      body.put("valid_from", record.timestamp());
      return body;
    }
  }

  private static Map<String, Object> windowed(List<Map<String, Object>> windows) {
    if (windows.isEmpty()) {
      return missing();
    }
    Map<String, Object> body = found("windows", windows.subList(0, Math.min(MOST_WINDOWS, windows.size())));
    body.put("more", windows.size() > MOST_WINDOWS);
    return body;
  }

  private static Map<String, Object> missing() {
    return ordered("found", false);
  }

  private static Map<String, Object> found(String name, Object what) {
    return ordered("found", true, name, what);
  }

  private static Map<String, Object> address(HostInfo host) {
    return ordered("host", host.host(), "port", host.port());
  }

  private static Map<String, Object> error(String message) {
    return ordered("error", message);
  }

  private static Map<String, Object> ordered(Object... pairs) {
    Map<String, Object> found = new LinkedHashMap<>();
    for (int at = 0; at < pairs.length; at += 2) {
      found.put((String) pairs[at], pairs[at + 1]);
    }
    return found;
  }

  /** A part of a path. Unlike in a query, a plus sign is one. */
  public static String decoded(String part) {
    return URLDecoder.decode(part.replace("+", "%2B"), StandardCharsets.UTF_8);
  }

  /** The parameters behind the question mark of an address. */
  public static Map<String, String> parameters(String query) {
    Map<String, String> found = new LinkedHashMap<>();
    for (String pair : query == null ? new String[0] : query.split("&")) {
      int at = pair.indexOf('=');
      if (at > 0) {
        found.put(pair.substring(0, at), URLDecoder.decode(pair.substring(at + 1), StandardCharsets.UTF_8));
      }
    }
    return found;
  }
}
