/* Records between librdkafka's messages and Arrow's buffers, without a Python object for each of them.
 *
 * Only structures and functions that rdkafka.h declares are used. Nothing is linked: librdkafka is already in the process, and its functions come in a table
 * (sr_functions). Who calls this owns every buffer, and has made it as large as sr_measure said. Nothing here waits but sr_consume and sr_reports.
 * The hashes of rows at the end need no librdkafka.
 */
#include <stddef.h>
#include <stdint.h>

/* Those of the C library that is in the process, whichever it is: this is linked with none, so it needs no headers of one either. */
void *memcpy(void *, const void *, size_t);
void *memset(void *, int, size_t);
int strcmp(const char *, const char *);
size_t strlen(const char *);

/* rd_kafka_message_t */
typedef struct {
  int err;
  void *topic;
  int32_t partition;
  void *payload;
  size_t len;
  void *key;
  size_t key_len;
  int64_t offset;
  void *opaque;
} message;

/* rd_kafka_vu_t: one named argument of rd_kafka_produceva. */
typedef struct {
  int vtype;
  union {
    int i;
    int32_t i32;
    int64_t i64;
    struct { const void *ptr; size_t size; } mem;
    void *ptr;
    char reserved[64];
  } u;
} argument;

enum { RKT = 2, PARTITION = 3, VALUE = 4, KEY = 5, MSGFLAGS = 7, TIMESTAMP = 8, HEADERS = 10 }; /* rd_kafka_vtype_t */
enum { COPY = 0x2 };                                                                           /* RD_KAFKA_MSG_F_COPY */
enum { DELIVERY = 0x1 };                                                                       /* RD_KAFKA_EVENT_DR */
enum { LOOKS = 1 << 14 };                                                                      /* at headers of one record */

/* In the order in which librdkafka.py names them. */
static struct {
  const char *(*topic_name)(const void *topic);
  int64_t (*timestamp)(const message *, int *type);
  int (*headers)(const message *, void **headers);
  int (*header_at)(const void *headers, size_t at, const char **name, const void **value, size_t *size);
  void (*destroy)(message *);
  void *(*produceva)(void *client, const argument *, size_t count);
  int (*error_code)(const void *error);
  void (*error_destroy)(void *error);
  void *(*headers_new)(size_t count);
  int (*header_add)(void *headers, const char *name, ptrdiff_t name_size, const void *value, ptrdiff_t size);
  void (*headers_destroy)(void *headers);
  void *(*queue_poll)(void *queue, int timeout_ms);
  int (*event_type)(const void *event);
  size_t (*event_messages)(void *event, const message **found, size_t most);
  void (*event_destroy)(void *event);
  ptrdiff_t (*consume)(void *queue, int timeout_ms, message **messages, size_t most);
  void (*mem_free)(void *client, void *memory);
  int (*header_get)(const void *headers, size_t at, const char *name, const void **value, size_t *size);
} rd;

void sr_functions(const void *const *table) { memcpy(&rd, table, sizeof rd); }

/* What this was compiled from, so that a library that is older than the source beside it is not used. */
uint64_t sr_source(void) { return SR_SOURCE; }

/* ---- reading ---- */

typedef struct { const char *topic; int64_t partition, end; } wanted;

typedef struct {
  int64_t messages;    /* looked at, from the first on; fewer than there are when the rest would be too many bytes */
  int64_t rows;        /* records of the range */
  int64_t handed_over; /* records of the partition: those at and behind the end too */
  int64_t errors;
  int64_t beyond;      /* whether one of them is at or behind the end */
  int64_t key_bytes, value_bytes, null_keys, null_values;
  int64_t with_headers, headers, header_key_bytes, header_value_bytes, null_header_values;
  int64_t cut;    /* the offset of the first record with a header whose name may go on behind a NUL, -1 when there is none */
  int64_t unsure; /* records of which this cannot be told, because too many of their headers have no value */
} sizes;

typedef struct { uint8_t *valid; int32_t *ends; uint8_t *data; } binary;

typedef struct {
  int64_t *offset, *timestamp;
  int8_t *timestamp_type;
  binary key, value, headers, header_key, header_value; /* headers have no data of their own; without any, all of their pointers are null */
} rows;

/* Two topics' messages can be in one array: a consumer that has been given another partition. Names are compared once for each handle in a row. */
static int belongs(const message *m, const wanted *w, const void **known, int *answer) {
  if (m->topic != *known) {
    *known = m->topic;
    *answer = m->topic && strcmp(rd.topic_name(m->topic), w->topic) == 0;
  }
  return *answer && m->partition == w->partition;
}

/* librdkafka gives a header's name as a C string, without its length. A value that begins right behind the NUL leaves no room for more of the name. Without one,
 * librdkafka is asked for as many headers of this name as there seem to be: it compares the lengths of names too. That looks at every header of the record, for
 * each without a value: ``looks`` is how many more may be looked at. Below 0 nothing can be told. */
static int may_be_cut(const void *headers, const char *name, size_t length, const void *value, int64_t *looks) {
  const char *other;
  const void *ignored;
  size_t size, alike = 0;
  if (value == (const void *)(name + length + 1)) return 0;
  for (size_t at = 0; rd.header_at(headers, at, &other, &ignored, &size) == 0; at++) {
    if (--*looks < 0) return 0;
    alike += strcmp(name, other) == 0;
  }
  return rd.header_get(headers, alike - 1, name, &ignored, &size) != 0;
}

void sr_measure(message *const *messages, int64_t count, const wanted *w, int64_t most_bytes, sizes *out) {
  const void *known = NULL;
  int here = 0;
  memset(out, 0, sizeof *out);
  out->cut = -1;
  for (int64_t i = 0; i < count; i++) {
    const message *m = messages[i];
    if (i + 8 < count) __builtin_prefetch(messages[i + 8]);
    if (m->err) {
      out->errors++;
    } else if (belongs(m, w, &known, &here)) {
      if (m->offset >= w->end) {
        out->beyond = 1;
      } else {
        int64_t header_count = 0, name_bytes = 0, value_bytes = 0, null_values = 0, looks = LOOKS;
        void *headers;
        if (rd.headers(m, &headers) == 0) {
          const char *name;
          const void *value;
          size_t size;
          for (size_t at = 0; rd.header_at(headers, at, &name, &value, &size) == 0; at++) {
            size_t length = strlen(name);
            header_count++;
            name_bytes += (int64_t)length;
            if (out->cut < 0 && may_be_cut(headers, name, length, value, &looks)) out->cut = m->offset;
            if (value) value_bytes += (int64_t)size;
            else null_values++;
          }
        }
        int64_t all = out->key_bytes + out->value_bytes + out->header_key_bytes + out->header_value_bytes;
        int64_t more = (int64_t)m->key_len + (int64_t)m->len + name_bytes + value_bytes;
        if (out->rows && all + more > most_bytes) return;
        out->rows++;
        out->key_bytes += m->key ? (int64_t)m->key_len : 0;
        out->value_bytes += m->payload ? (int64_t)m->len : 0;
        out->null_keys += !m->key;
        out->null_values += !m->payload;
        out->with_headers += header_count > 0;
        out->headers += header_count;
        out->header_key_bytes += name_bytes;
        out->header_value_bytes += value_bytes;
        out->null_header_values += null_values;
        out->unsure += looks < 0;
      }
      out->handed_over++;
    }
    out->messages++;
  }
}

static void clear(const binary *b, int64_t count) {
  if (b->valid) memset(b->valid, 0, (size_t)((count + 7) / 8));
  if (b->ends) b->ends[0] = 0;
}

static void put(const binary *b, int64_t row, int present, const void *data, size_t size) {
  int32_t at = b->ends[row];
  if (present) {
    if (size) memcpy(b->data + at, data, size);
    if (b->valid) b->valid[row >> 3] |= (uint8_t)(1 << (row & 7));
    at += (int32_t)size;
  }
  b->ends[row + 1] = at;
}

/* Fill ``out`` with what sr_measure counted in the first ``s->messages`` of these. */
void sr_gather(message *const *messages, const wanted *w, const sizes *s, const rows *out) {
  const void *known = NULL;
  int here = 0;
  int64_t row = 0, header = 0;
  clear(&out->key, s->rows);
  clear(&out->value, s->rows);
  clear(&out->headers, s->rows);
  clear(&out->header_key, s->headers);
  clear(&out->header_value, s->headers);
  for (int64_t i = 0; i < s->messages; i++) {
    const message *m = messages[i];
    if (m->err || !belongs(m, w, &known, &here) || m->offset >= w->end) continue;
    int type;
    out->offset[row] = m->offset;
    out->timestamp[row] = rd.timestamp(m, &type);
    out->timestamp_type[row] = (int8_t)(type - 1); /* librdkafka counts from 0, not available, to 2, log append */
    put(&out->key, row, m->key != NULL, m->key, m->key_len);
    put(&out->value, row, m->payload != NULL, m->payload, m->len);
    if (s->headers) {
      void *headers;
      int64_t first = header;
      if (rd.headers(m, &headers) == 0) {
        const char *name;
        const void *value;
        size_t size;
        for (size_t at = 0; rd.header_at(headers, at, &name, &value, &size) == 0; at++, header++) {
          put(&out->header_key, header, 1, name, strlen(name));
          put(&out->header_value, header, value != NULL, value, size);
        }
      }
      if (header > first) out->headers.valid[row >> 3] |= (uint8_t)(1 << (row & 7));
      out->headers.ends[row + 1] = (int32_t)header;
    }
    row++;
  }
}

/* The first error at or behind ``from``, ``count`` when there is none. */
int64_t sr_next_error(message *const *messages, int64_t from, int64_t count) {
  while (from < count && !messages[from]->err) from++;
  return from;
}

void sr_destroy(message *const *messages, int64_t *held) {
  for (int64_t i = 0; i < *held; i++) rd.destroy(messages[i]);
  *held = 0;
}

/* Python can be interrupted between any two of its steps: how many messages are held, and must be destroyed before the client, is written down here. */
void sr_consume(void *queue, int timeout_ms, message **messages, size_t most, int64_t *held) {
  sr_destroy(messages, held);
  ptrdiff_t found = rd.consume(queue, timeout_ms, messages, most);
  *held = found > 0 ? found : 0;
}

/* What librdkafka tells by callbacks. They are no functions of Python: what its signal handlers raise in one would be lost. */
typedef struct { int64_t code; char text[512]; } failure;

typedef struct {
  char *statistics; /* the newest, or null; to be freed */
  int64_t statistics_bytes;
  failure newest, newest_of_one; /* the second is not that all brokers are down, which follows what is wrong with each; a code of 0 is none */
} heard;

enum { ALL_BROKERS_DOWN = -187 }; /* RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN */

int sr_statistics(void *client, char *text, size_t size, void *opaque) {
  heard *h = opaque;
  if (h->statistics) rd.mem_free(client, h->statistics);
  h->statistics = text;
  h->statistics_bytes = (int64_t)size;
  return 1; /* the text is ours now */
}

static void keep(failure *f, int code, const char *text) {
  size_t size = text ? strlen(text) : 0;
  if (size > sizeof f->text - 1) size = sizeof f->text - 1;
  if (size) memcpy(f->text, text, size);
  f->text[size] = 0;
  f->code = code;
}

void sr_error(void *client, int code, const char *text, void *opaque) {
  heard *h = opaque;
  (void)client;
  keep(&h->newest, code, text);
  if (code != ALL_BROKERS_DOWN) keep(&h->newest_of_one, code, text);
}

/* ---- writing ---- */

/* A column of Arrow, which may begin in the middle of its buffers: ``first`` is its first element in them. Without ``valid`` nothing is null. */
typedef struct { const uint8_t *valid; const int32_t *ends; const uint8_t *data; int64_t first; } column;

typedef struct {
  const int64_t *timestamp;
  column key, value, headers, header_key, header_value; /* without any header, headers.ends is null */
} batch;

static int present(const column *c, int64_t at) {
  at += c->first;
  return !c->valid || (c->valid[at >> 3] >> (at & 7)) & 1;
}

static int32_t start(const column *c, int64_t at) { return c->ends[c->first + at]; }

/* Null is a null pointer; what is empty must have another one, and its column may have no data at all. */
static const void *bytes(const column *c, int64_t at, size_t *size) {
  static const char nothing[1] = {0};
  *size = 0;
  if (!present(c, at)) return NULL;
  *size = (size_t)(start(c, at + 1) - start(c, at));
  return *size ? c->data + start(c, at) : (const void *)nothing;
}

static void *headers_of(const batch *b, int64_t row) {
  if (!b->headers.ends || !present(&b->headers, row)) return NULL;
  int32_t from = start(&b->headers, row), to = start(&b->headers, row + 1);
  if (from == to) return NULL;
  void *headers = rd.headers_new((size_t)(to - from));
  for (int32_t at = from; at < to; at++) {
    size_t name_size, size;
    const void *name = bytes(&b->header_key, at, &name_size), *value = bytes(&b->header_value, at, &size);
    rd.header_add(headers, name, (ptrdiff_t)name_size, value, (ptrdiff_t)size);
  }
  return headers;
}

/* Hand over rows [from, count) until one is not taken. Returns that row, or ``count``; ``*error`` is why. */
int64_t sr_produce(void *client, void *topic, int64_t partition, const batch *b, int64_t from, int64_t count, int *error) {
  argument a[7];
  *error = 0;
  a[0].vtype = RKT, a[0].u.ptr = topic;
  a[1].vtype = PARTITION, a[1].u.i32 = (int32_t)partition;
  a[2].vtype = MSGFLAGS, a[2].u.i = COPY;
  a[3].vtype = TIMESTAMP;
  a[4].vtype = KEY;
  a[5].vtype = VALUE;
  a[6].vtype = HEADERS;
  for (int64_t row = from; row < count; row++) {
    void *headers = headers_of(b, row);
    a[3].u.i64 = b->timestamp[row];
    a[4].u.mem.ptr = bytes(&b->key, row, &a[4].u.mem.size);
    a[5].u.mem.ptr = bytes(&b->value, row, &a[5].u.mem.size);
    a[6].u.ptr = headers;
    void *failed = rd.produceva(client, a, headers ? 7 : 6);
    if (failed) {
      *error = rd.error_code(failed);
      rd.error_destroy(failed);
      if (headers) rd.headers_destroy(headers); /* of a record that was taken they are librdkafka's */
      return row;
    }
  }
  return count;
}

typedef struct {
  int64_t acknowledged; /* reports of records that lie where they were expected, one behind the other */
  int64_t misplaced;    /* the offset of the first one that does not, -1 when there is none */
  int64_t error;        /* of the first record that was not delivered, 0 when there is none */
  void *other;          /* an event that is no report: to be read, and destroyed */
} reports;

/* Take the delivery reports that are there; wait up to ``timeout_ms`` for the first. After the first failure the others are only taken away. */
void sr_reports(void *queue, int timeout_ms, int64_t expected, reports *out) {
  const message *found[1024];
  void *event;
  out->acknowledged = out->error = 0;
  out->misplaced = -1;
  out->other = NULL;
  while ((event = rd.queue_poll(queue, out->acknowledged || out->error || out->misplaced >= 0 ? 0 : timeout_ms))) {
    if (rd.event_type(event) != DELIVERY) {
      out->other = event;
      return;
    }
    for (size_t count; (count = rd.event_messages(event, found, 1024));)
      for (size_t i = 0; i < count; i++) {
        if (out->error || out->misplaced >= 0) continue;
        if (found[i]->err) out->error = found[i]->err;
        else if (found[i]->offset != expected + out->acknowledged) out->misplaced = found[i]->offset;
        else out->acknowledged++;
      }
    rd.event_destroy(event);
  }
}

/* ---- hashes of rows: row i is the ``lengths[i]`` bytes from ``starts[i]`` on ---- */

/* As core.state.edit.murmur2. */
void sr_murmur2(const uint8_t *data, const int64_t *starts, const int64_t *lengths, int64_t count, uint32_t *out) {
  const uint32_t m = 0x5bd1e995;
  for (int64_t row = 0; row < count; row++) {
    const uint8_t *at = data + starts[row];
    int64_t left = lengths[row];
    uint32_t h = 0x9747b28c ^ (uint32_t)left;
    for (; left >= 4; left -= 4, at += 4) {
      uint32_t k;
      memcpy(&k, at, 4);
      k *= m;
      h = h * m ^ (k ^ k >> 24) * m;
    }
    if (left) {
      uint32_t k = 0;
      memcpy(&k, at, (size_t)left);
      h = (h ^ k) * m;
    }
    h = (h ^ h >> 13) * m;
    out[row] = h ^ h >> 15;
  }
}

/* Two hashes of 64 bits, as log_digest._nh: ``keys`` has two for each word and hash, of 32 bits each, ``words`` behind one another. */
void sr_nh(const uint8_t *data, const int64_t *starts, const int64_t *lengths, int64_t count, const uint64_t *keys, int64_t words, uint64_t *out) {
  for (int64_t row = 0; row < count; row++) {
    const uint8_t *at = data + starts[row];
    uint64_t one = 0, other = 0;
    int64_t left = lengths[row];
    for (const uint64_t *k = keys; left > 0; left -= 8, at += 8, k++) {
      uint64_t word = 0;
      if (left >= 8) memcpy(&word, at, 8);
      else memcpy(&word, at, (size_t)left);
      uint64_t low = word & 0xffffffff, high = word >> 32;
      one += (low + k[0]) * (high + k[words]) - k[0] * k[words];
      other += (low + k[2 * words]) * (high + k[3 * words]) - k[2 * words] * k[3 * words];
    }
    out[2 * row] = one;
    out[2 * row + 1] = other;
  }
}

/* A hash of two in each row, as log_digest._both. ``one`` and ``other`` have this many numbers in a row: the one, or two of them. */
void sr_both(const uint64_t *one, int64_t of_one, const uint64_t *other, int64_t of_other, int64_t count, const uint64_t *odd, uint64_t *out) {
  for (int64_t row = 0; row < count; row++) {
    for (int64_t at = 0; at < 2; at++) {
      uint64_t h = (one[row * of_one + at % of_one] + odd[at]) * odd[1 - at] ^ other[row * of_other + at % of_other];
      h = (h ^ h >> 32) * odd[at];
      h = (h ^ h >> 29) * odd[at];
      out[2 * row + at] = h ^ h >> 32;
    }
  }
}
