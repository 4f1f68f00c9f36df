#ifndef TAFFRAIL_H
#define TAFFRAIL_H

/*
 * The C interface of Taffrail. docs/c-api.md shows how it is used.
 *
 * This file is written by `cargo xtask header`, out of embed/c/src.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

// As the source of a receive: a message of any rank.
#define TAFFRAIL_ANY_SOURCE UINT32_MAX

// The member `data` is set.
#define TAFFRAIL_STATUS_DATA 1

// The member `offset` is set: this is a message of a multi-receive, which goes on.
#define TAFFRAIL_STATUS_OFFSET 2

// The member `context` is set.
#define TAFFRAIL_OPTION_CONTEXT 1

// Of a send: it is over when a receive has matched the message. It has no member.
#define TAFFRAIL_OPTION_SYNC 2

// The member `data` is set. Of sends only.
#define TAFFRAIL_OPTION_DATA 4

// Of an operation that is started: its end is told by taffrail_next_ended(). It has no member.
#define TAFFRAIL_OPTION_REPORT 8

// The members `callback` and `argument` are set. Of an operation that is started: the function runs when
// it is over, and neither taffrail_next_ended() nor taffrail_test() and the like tell of it.
#define TAFFRAIL_OPTION_CALLBACK 16

// The version of this header: the major version times 65536, the minor one times 256, and the patch
// level. The calls that open an endpoint want it as their first argument.
#define TAFFRAIL_VERSION 256

// The member `eager_max` is set.
#define TAFFRAIL_PARAM_EAGER_MAX 1

// The member `outbox` is set.
#define TAFFRAIL_PARAM_OUTBOX 2

// The member `unexpected` is set.
#define TAFFRAIL_PARAM_UNEXPECTED 4

// The member `spin` is set.
#define TAFFRAIL_PARAM_SPIN 8

// The member `patience` is set.
#define TAFFRAIL_PARAM_PATIENCE 16

// Room for an address and the zero behind it, in bytes.
#define TAFFRAIL_ADDRESS_SIZE 64

// Bytes of a key.
#define TAFFRAIL_KEY_LEN 88

// How a call, or an operation, has ended: zero and above is no error, below is one.
// taffrail_last_error() says more.
enum taffrail_code_t
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Done.
    TAFFRAIL_OK = 0,
    // Not yet: the operation is not over, or there is no such message.
    TAFFRAIL_PENDING = 1,
    // There is something to be done already: make progress instead of waiting.
    TAFFRAIL_READY = 2,
    // An argument makes no sense, such as a null pointer.
    TAFFRAIL_ERROR_ARGUMENT = -1,
    // Header and library do not fit.
    TAFFRAIL_ERROR_VERSION = -2,
    // The rank on the other side is gone.
    TAFFRAIL_ERROR_PEER = -3,
    // The message was longer than the receive, which has got its beginning.
    TAFFRAIL_ERROR_TRUNCATED = -4,
    // The operation was cancelled.
    TAFFRAIL_ERROR_CANCELLED = -5,
    // There is no such rank.
    TAFFRAIL_ERROR_NO_SUCH_RANK = -6,
    // The request is used up: its result was taken before.
    TAFFRAIL_ERROR_STALE_REQUEST = -7,
    // The endpoint belongs to the parent of this forked process.
    TAFFRAIL_ERROR_FORKED = -8,
    // The payload of an active message is longer than such may be.
    TAFFRAIL_ERROR_TOO_LONG = -9,
    // Memory could not be allocated, registered or found.
    TAFFRAIL_ERROR_MEMORY = -10,
    // The system denies a way of moving bytes.
    TAFFRAIL_ERROR_DENIED = -11,
    // The job's messages are logged, and this cannot be.
    TAFFRAIL_ERROR_NOT_LOGGED = -12,
    // The program was started again, and does something else than before.
    TAFFRAIL_ERROR_DIVERGED = -13,
    // A setting, or the tuning file of the host, makes no sense.
    TAFFRAIL_ERROR_SETTING = -14,
    // The job could not be joined, or the transport could not be set up.
    TAFFRAIL_ERROR_START = -15,
    // There is no way to the endpoint with this address.
    TAFFRAIL_ERROR_UNREACHABLE = -16,
    // An error that this version of the library has no code for.
    TAFFRAIL_ERROR_OTHER = -17,
    // A mistake in the library. The call was given up; close the endpoint.
    TAFFRAIL_ERROR_INTERNAL = -18,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum taffrail_code_t taffrail_code_t;
#else
typedef int32_t taffrail_code_t;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Memory of an endpoint that peers reach without a copy: for loans, for one-sided access, and for
// long messages.
typedef struct taffrail_buffer_t taffrail_buffer_t;

// A message that was taken out of the queue by taffrail_claim().
typedef struct taffrail_message_t taffrail_message_t;

// An endpoint: one rank's end of the transport. It belongs to one thread at a time. Progress is made
// inside calls only.
typedef struct taffrail_t taffrail_t;

// A received message in place: of a loan the sender's own memory, of any other a private copy.
typedef struct taffrail_view_t taffrail_view_t;

// Settings of an endpoint. Set `fields` to the sum of the TAFFRAIL_PARAM_* that are wanted; members of
// others are not looked at, so that later versions can have more of them. What is not set here comes
// from the environment (TAFFRAIL_EAGER_MAX and so on), or is the default.
typedef struct {
    // The sum of the TAFFRAIL_PARAM_* that are wanted.
    uint64_t fields;
    // Messages of up to this many bytes are sent without asking the receiver.
    size_t eager_max;
    // The memory that messages leave from grows up to this many bytes.
    size_t outbox;
    // When more bytes of one sender wait for receives, it is asked to announce its messages instead
    // of sending them.
    size_t unexpected;
    // Idle turns before a rank that waits gives its processor away.
    uint32_t spin;
    // Seconds to wait for the other ranks at the start.
    uint32_t patience;
} taffrail_params_t;

// An operation that was started. A plain value, to be copied as one likes: it is good until a call
// has returned the operation's result, and TAFFRAIL_ERROR_STALE_REQUEST afterwards.
typedef struct {
    // Its place in a table: small, and used again by later operations.
    uint32_t index;
    // Which operation of this place it is.
    uint32_t generation;
} taffrail_request_t;

// What is known of an operation that is over, or of a message that was found.
typedef struct {
    // The sending rank; where an operation has failed, the rank that it has failed for, or
    // TAFFRAIL_ANY_SOURCE.
    uint32_t source;
    // How the operation has ended.
    taffrail_code_t code;
    // The tag that the message was sent with.
    uint64_t tag;
    // The length of the message in bytes: of a send what was sent, of a truncated message all of it.
    size_t len;
    // The sum of the TAFFRAIL_STATUS_* whose members are set; the others are zeros.
    uint32_t fields;
    // The number that the sender has put beside the payload.
    uint32_t data;
    // Where in the buffer of a multi-receive the message begins.
    size_t offset;
    // Zeros; room for members of later versions.
    uint64_t reserved[2];
} taffrail_status_t;

// What runs when an operation is over: inside taffrail_progress() or taffrail_next_ended(), on that call's
// thread, and never inside the call that starts the operation. The request is used up; `status` says how
// the operation has ended, errors included, and is gone when the function returns. It may use the
// endpoint, also to start further operations, but not close it; it must not throw a C++ exception or jump
// out of the call. Of a multi-receive it runs for each message, with TAFFRAIL_STATUS_OFFSET among the
// fields, and for the end without. Operations that are not over when the endpoint is closed run nothing.
typedef void (*taffrail_callback_t)(taffrail_t *t,
                                    taffrail_request_t request,
                                    const taffrail_status_t *status,
                                    void *argument);

// What few messages need. Calls take a null pointer for none of it. Set `fields` to the sum of the
// TAFFRAIL_OPTION_* that are wanted; members of others are not looked at, so that later versions can
// have more of them. What a call does not know, or cannot use, is TAFFRAIL_ERROR_ARGUMENT.
typedef struct {
    // The sum of the TAFFRAIL_OPTION_* that are wanted.
    uint32_t fields;
    // The context (communicator): messages and receives of different contexts never meet. Programs
    // use 0 to 49151, and of an endpoint that was opened (not joined) 0, 16384 and 32768; others are
    // refused.
    uint16_t context;
    // A number that travels beside the payload, for the receiver's status. Numbers up
    // to 16382 cost nothing in an open job; others 8 bytes more on the way.
    uint32_t data;
    // What runs when the operation is over.
    taffrail_callback_t callback;
    // Passed to it as it is.
    void *argument;
} taffrail_options_t;

// What causal logging has sent with this rank's messages.
typedef struct {
    // Messages sent to other ranks.
    uint64_t messages;
    // Determinants of this rank's own events.
    uint64_t created;
    // Determinants sent in front of messages, those of other ranks included, each time one is sent.
    uint64_t piggybacked;
    // Zeros.
    uint64_t reserved[5];
} taffrail_counters_t;

// What a peer must have to reach memory of this rank: plain bytes, to be sent as one likes.
typedef struct {
    // What they mean is the library's business.
    uint8_t bytes[TAFFRAIL_KEY_LEN];
} taffrail_key_t;

// An active message that has arrived.
typedef struct {
    // The sender.
    uint32_t source;
    // The handler's number.
    uint16_t handler;
    // The eight bytes sent with it.
    uint64_t header;
    // The payload: private, and gone when the handler returns.
    const void *payload;
    // Its length in bytes.
    size_t len;
} taffrail_am_t;

// What runs when an active message arrives: inside a call that makes progress, on that call's thread.
// It may use the endpoint, by the handle that it is given, but not close it; it must not throw a C++
// exception or jump out of the call.
typedef void (*taffrail_handler_t)(taffrail_t *t, const taffrail_am_t *message, void *argument);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// What a code means, in a few words. The text is the library's.
const char *taffrail_strerror(int32_t code);

// The error that the last failed call of this thread has met: what was expected, what there was, and
// what to do. The text is good until the next call of this thread that fails; it is empty when none
// has.
const char *taffrail_last_error(void);

// The version of the library, as TAFFRAIL_VERSION is that of the header.
uint32_t taffrail_version(void);

// The version of the library as a text, such as "0.1.0". It is the library's.
const char *taffrail_version_text(void);

// Joins the job that the launcher has described in the environment (`taffrail run`, or an MPI's
// launcher that speaks PMI-1), and opens an endpoint; without a launcher, in a job of one rank. Works
// once in a process. All ranks of the job do it, and it returns when they have.
//
// `version` is TAFFRAIL_VERSION: a library that does not fit the header refuses it, with
// TAFFRAIL_ERROR_VERSION. `params` may be null. The endpoint is stored in `*t`, or NULL when there is
// an error.
//
// Rules:
// `t` points to room for a pointer; `params` is null, or points to parameters.
taffrail_code_t taffrail_join(uint32_t version,
                              const taffrail_params_t *params,
                              taffrail_t **t);

// Opens an endpoint in a job of its own that others may join, for runtimes whose processes tell each
// other their addresses: see taffrail_address() and taffrail_connect(). Ranks are this endpoint's own
// numbers for the others, below `seats`. It does not wait for others. There are three contexts.
//
// Below `taffrail run --logging` it is the rank of the launcher's job instead, so that its messages are
// logged; the calls are the same, and `seats` is not looked at.
//
// `version`, `params` and `t` are as for taffrail_join().
//
// Rules:
// As taffrail_join().
taffrail_code_t taffrail_open(uint32_t version,
                              uint32_t seats,
                              const taffrail_params_t *params,
                              taffrail_t **t);

// Closes an endpoint. What still waits for room is sent before, for some seconds at most. Memory of
// operations that are not over stays theirs for ever: what was sent of it may still be read. `t` may
// be null.
//
// Rules:
// `t` is not used any more. Views of messages may be.
taffrail_code_t taffrail_close(taffrail_t *t);

// This rank; of an endpoint that was opened, its own number for itself.
//
// Rules:
// `t` is open; it is not checked.
uint32_t taffrail_rank(taffrail_t *t);

// How many ranks the job has; of an endpoint that was opened, the seats.
//
// Rules:
// `t` is open; it is not checked.
uint32_t taffrail_size(taffrail_t *t);

// Where a rank, such as this one, is found by other processes of the same user: a text without spaces,
// to be told to them as one likes.
//
// Rules:
// `t` is open; TAFFRAIL_ADDRESS_SIZE bytes at `address` are writable.
taffrail_code_t taffrail_address(taffrail_t *t,
                                 uint32_t rank,
                                 char *address);

// The rank of the endpoint with this address; the same one each time. It is connected with while this
// endpoint and that one make progress: messages to it wait until then. It may also be there already,
// since it has connected by itself: taffrail_address() tells who has sent something.
//
// Rules:
// `t` is open; `address` is a text that ends with a zero; `*rank` is writable.
taffrail_code_t taffrail_connect(taffrail_t *t,
                                 const char *address,
                                 uint32_t *rank);

// Gives the number of a peer that is gone to whoever connects next. Only of an endpoint that was
// opened. TAFFRAIL_PENDING when the peer still lives, or something of it is still here: messages that
// nobody has received, requests that nobody has finished, views of its memory.
//
// Rules:
// `t` is open.
taffrail_code_t taffrail_forget(taffrail_t *t,
                                uint32_t rank);

// Sends a message, and returns when `data` may be used again. That a long message has been sent means
// that its receive has been posted; of a short one it means nothing, except with
// TAFFRAIL_OPTION_SYNC.
//
// Rules:
// `t` is open (not checked), `len` bytes at `data` are readable, `options` is null or points to
// options.
taffrail_code_t taffrail_send(taffrail_t *t,
                              uint32_t rank,
                              uint64_t tag,
                              const void *data,
                              size_t len,
                              const taffrail_options_t *options);

// Sends a message whose memory may be used again at once: what has no room now is copied.
//
// Rules:
// As taffrail_send().
taffrail_code_t taffrail_inject(taffrail_t *t,
                                uint32_t rank,
                                uint64_t tag,
                                const void *data,
                                size_t len,
                                const taffrail_options_t *options);

// Starts a send. The call does not wait; the send is over when taffrail_test() or a like call says so.
//
// Rules:
// `t` is open, and `*request` writable (both not checked); `len` bytes at `data` stay readable and
// unchanged until the send is over; `options` is null or points to options.
taffrail_code_t taffrail_isend(taffrail_t *t,
                               uint32_t rank,
                               uint64_t tag,
                               const void *data,
                               size_t len,
                               const taffrail_options_t *options,
                               taffrail_request_t *request);

// Starts a send of a message that is gathered from `parts` places. The list may be given up at once.
//
// Rules:
// `t` is open; `parts` elements at `list` say what is readable and unchanged until the send is over;
// `options` is null or points to options.
taffrail_code_t taffrail_isendv(taffrail_t *t,
                                uint32_t rank,
                                uint64_t tag,
                                const struct iovec *list,
                                size_t parts,
                                const taffrail_options_t *options,
                                taffrail_request_t *request);

// Receives a message of rank `source` (or TAFFRAIL_ANY_SOURCE) whose tag is `tag`, except for the bits
// set in `ignore`. What it says of itself is stored in `*status`, which may be null. A message that is
// longer than `len` is TAFFRAIL_ERROR_TRUNCATED; its first `len` bytes are there.
//
// Rules:
// `t` is open (not checked); `len` bytes at `into` are writable; `options` is null or points to
// options.
taffrail_code_t taffrail_recv(taffrail_t *t,
                              uint32_t source,
                              uint64_t tag,
                              uint64_t ignore,
                              void *into,
                              size_t len,
                              const taffrail_options_t *options,
                              taffrail_status_t *status);

// Starts a receive. The call does not wait; the receive is over when taffrail_test() or a like call
// says so.
//
// Rules:
// `t` is open, and `*request` writable (both not checked); `len` bytes at `into` stay writable, and
// are used by nobody else, until the receive is over; `options` is null or points to options.
taffrail_code_t taffrail_irecv(taffrail_t *t,
                               uint32_t source,
                               uint64_t tag,
                               uint64_t ignore,
                               void *into,
                               size_t len,
                               const taffrail_options_t *options,
                               taffrail_request_t *request);

// Starts a receive into `parts` places. The list may be given up at once.
//
// Rules:
// `t` is open; `parts` elements at `list` say what stays writable, and is used by nobody else, until
// the receive is over; `options` is null or points to options.
taffrail_code_t taffrail_irecvv(taffrail_t *t,
                                uint32_t source,
                                uint64_t tag,
                                uint64_t ignore,
                                const struct iovec *list,
                                size_t parts,
                                const taffrail_options_t *options,
                                taffrail_request_t *request);

// Starts a receive of many messages into one buffer, one behind the other, until fewer than `least`
// bytes are free. Each begins at a multiple of 8 bytes from the beginning of the buffer.
// taffrail_landed() tells of each. The receive is over when the buffer is used up and everything in it
// has landed.
//
// Rules:
// As taffrail_irecv(), but `t` and `request` are checked.
taffrail_code_t taffrail_irecv_multi(taffrail_t *t,
                                     uint32_t source,
                                     uint64_t tag,
                                     uint64_t ignore,
                                     void *into,
                                     size_t len,
                                     size_t least,
                                     const taffrail_options_t *options,
                                     taffrail_request_t *request);

// The next message that a multi-receive has got: what it says of itself, and where in the buffer it
// begins, is stored in `*status`. Makes progress when there is none, which is
// TAFFRAIL_PENDING. Call it until it says so, also after the multi-receive is over: only then all
// messages were told, and the request is used up.
//
// Rules:
// `t` is open; `*status` is writable.
taffrail_code_t taffrail_landed(taffrail_t *t,
                                taffrail_request_t request,
                                taffrail_status_t *status);

// Whether an operation is over: TAFFRAIL_PENDING while it is not, else how it has ended, and the
// request is used up. Makes progress. `status` may be null.
//
// Rules:
// `t` is open (not checked); `status` is null or there is room for a status.
taffrail_code_t taffrail_test(taffrail_t *t, taffrail_request_t request, taffrail_status_t *status);

// Waits until an operation is over. The request is used up. `status` may be null.
//
// Rules:
// `t` is open (not checked); `status` is null or there is room for a status.
taffrail_code_t taffrail_wait(taffrail_t *t, taffrail_request_t request, taffrail_status_t *status);

// Waits until one of several operations is over. Its place in the list is stored in `*index`, and how
// it has ended is returned; its request is used up, the others go on. Where nothing was waited for,
// because a request is used up already, `*index` is `count`.
//
// Rules:
// `t` is open; `requests` has `count` elements; `status` is null or there is room for a status.
taffrail_code_t taffrail_wait_any(taffrail_t *t,
                                  const taffrail_request_t *requests,
                                  size_t count,
                                  size_t *index,
                                  taffrail_status_t *status);

// As taffrail_wait_any(), without waiting: TAFFRAIL_PENDING while none is over. Makes progress.
//
// Rules:
// As taffrail_wait_any().
taffrail_code_t taffrail_test_any(taffrail_t *t,
                                  const taffrail_request_t *requests,
                                  size_t count,
                                  size_t *index,
                                  taffrail_status_t *status);

// Waits until all of several operations are over. Returns the first error in the order of the list.
// Where `statuses` is not null it has `count` elements, and tells how each has ended.
//
// Rules:
// `t` is open; `requests` has `count` elements, and so has `statuses`, unless it is null.
taffrail_code_t taffrail_wait_all(taffrail_t *t,
                                  const taffrail_request_t *requests,
                                  size_t count,
                                  taffrail_status_t *statuses);

// Cancels a receive, if no message has matched it: then it is over with TAFFRAIL_ERROR_CANCELLED,
// which is still to be taken by taffrail_test() or a like call. TAFFRAIL_PENDING when nothing was
// done. Sends are not cancelled.
//
// Rules:
// `t` is open.
taffrail_code_t taffrail_cancel(taffrail_t *t, taffrail_request_t request);

// Lets the end of an operation be told by taffrail_next_ended(), as TAFFRAIL_OPTION_REPORT does from
// the start. Do not ask for it by taffrail_test() and the like then.
//
// Rules:
// `t` is open.
taffrail_code_t taffrail_report(taffrail_t *t,
                                taffrail_request_t request);

// Lets `run` run when an operation is over, as TAFFRAIL_OPTION_CALLBACK does from the start. `argument` is
// passed to it as it is. Neither taffrail_next_ended() nor taffrail_test() and the like tell of it then.
//
// Rules:
// `t` is open. `run` and `argument` are good until it has run.
taffrail_code_t taffrail_on_ended(taffrail_t *t,
                                  taffrail_request_t request,
                                  taffrail_callback_t run,
                                  void *argument);

// The next of the reported operations that is over, in the order in which they ended: its request is
// stored in `*request`, and how it has ended in `*status`, errors included. TAFFRAIL_PENDING when none
// is over; makes progress then. Of a multi-receive it tells each message, with TAFFRAIL_STATUS_OFFSET
// among the fields, and the end without. Functions of operations that are over meanwhile
// (TAFFRAIL_OPTION_CALLBACK) run inside. An error is one of the call.
//
// Rules:
// `t` is open, `*request` and `*status` are writable; they are not checked.
taffrail_code_t taffrail_next_ended(taffrail_t *t,
                                    taffrail_request_t *request,
                                    taffrail_status_t *status);

// Makes progress without waiting, and runs the functions of operations that are over
// (TAFFRAIL_OPTION_CALLBACK), 64 at the most. Returns how many things happened; an error is below zero.
//
// Rules:
// `t` is open; it is not checked.
int32_t taffrail_progress(taffrail_t *t);

// Waits until every rank of the job has come here. An endpoint that was opened has no such job, except
// below `taffrail run --logging`.
//
// Rules:
// `t` is open.
taffrail_code_t taffrail_barrier(taffrail_t *t);

// A descriptor for poll() and the like: after taffrail_arm() has returned TAFFRAIL_OK it is readable
// when there is something to make progress with, the end of a peer included. It is the endpoint's:
// do not read it, and do not close it. An error is below zero.
//
// Rules:
// `t` is open.
int32_t taffrail_fd(taffrail_t *t);

// Prepares a wait on taffrail_fd(). TAFFRAIL_READY when something is there already: make progress
// instead. While messages of this rank wait for room, look again after a short time.
//
// Rules:
// `t` is open.
taffrail_code_t taffrail_arm(taffrail_t *t);

// Which protocol is used for each peer and size, and why each other is not: a text of several lines,
// to be freed with taffrail_free_text(). NULL when there is an error.
//
// Rules:
// `t` is open.
char *taffrail_explain(taffrail_t *t);

// Frees a text. It may be null.
//
// Rules:
// The text was returned by taffrail_explain(), and is not used any more.
void taffrail_free_text(char *text);

// What causal logging has sent since this rank was started. All zeros where messages are not logged,
// or not in the causal way.
//
// Rules:
// `t` is open; `*counters` is writable.
taffrail_code_t taffrail_counters(taffrail_t *t,
                                  taffrail_counters_t *counters);

// What a receive with these arguments would get: TAFFRAIL_OK and its status, or TAFFRAIL_PENDING when
// there is no such message. Makes progress. `status` may be null.
//
// Rules:
// `t` is open; `options` is null or points to options, `status` is null or there is room for a status.
taffrail_code_t taffrail_probe(taffrail_t *t,
                               uint32_t source,
                               uint64_t tag,
                               uint64_t ignore,
                               const taffrail_options_t *options,
                               taffrail_status_t *status);

// Takes a message out of the queue, so that only taffrail_recv_message() gets it: TAFFRAIL_OK and its
// status, or TAFFRAIL_PENDING, with NULL in `*message`, when there is no such message. Makes progress.
// `status` may be null.
//
// Rules:
// As taffrail_probe(); `*message` is writable.
taffrail_code_t taffrail_claim(taffrail_t *t,
                               uint32_t source,
                               uint64_t tag,
                               uint64_t ignore,
                               const taffrail_options_t *options,
                               taffrail_message_t **message,
                               taffrail_status_t *status);

// Receives a claimed message, which is used up, also when there is an error other than
// TAFFRAIL_ERROR_ARGUMENT. `status` may be null.
//
// Rules:
// `t` is open; `message` was claimed and is not used any more; `len` bytes at `into` are writable;
// `status` is null or there is room for a status.
taffrail_code_t taffrail_recv_message(taffrail_t *t,
                                      taffrail_message_t *message,
                                      void *into,
                                      size_t len,
                                      taffrail_status_t *status);

// Starts to receive a claimed message, which is used up, also when there is an error other than
// TAFFRAIL_ERROR_ARGUMENT. Of the options it knows TAFFRAIL_OPTION_REPORT and _CALLBACK.
//
// Rules:
// As taffrail_recv_message(); the bytes at `into` stay writable, and are used by nobody else, until
// the receive is over; `options` is null or points to options. `*request` is writable.
taffrail_code_t taffrail_irecv_message(taffrail_t *t,
                                       taffrail_message_t *message,
                                       void *into,
                                       size_t len,
                                       const taffrail_options_t *options,
                                       taffrail_request_t *request);

// Discards a claimed message: its sender goes on as if it had been received. It may be null.
//
// Rules:
// `message` was claimed and is not used any more.
taffrail_code_t taffrail_discard(taffrail_message_t *message);

// Takes memory of `len` bytes from the endpoint's pool. Its contents are whatever the last user has
// left. `*buffer` is NULL when there is an error.
//
// Rules:
// `t` is open; `*buffer` is writable.
taffrail_code_t taffrail_alloc(taffrail_t *t, size_t len, taffrail_buffer_t **buffer);

// The memory of a buffer; its length is stored in `*len`, which may be null. NULL for a null pointer.
//
// Rules:
// `buffer` is null, or was allocated, and not freed or lent since; `len` is null or writable.
void *taffrail_buffer_bytes(taffrail_buffer_t *buffer,
                            size_t *len);

// Uses only the first `len` bytes of a buffer from now on.
//
// Rules:
// `buffer` is null, or was allocated, and not freed or lent since.
taffrail_code_t taffrail_buffer_truncate(taffrail_buffer_t *buffer, size_t len);

// Gives a buffer back to its endpoint's pool, also after the endpoint is closed. It may be null.
//
// Rules:
// `buffer` was allocated, and not freed or lent since; it and its memory are not used any more, by
// this rank or others.
taffrail_code_t taffrail_buffer_free(taffrail_buffer_t *buffer);

// Sends a buffer away without copying it: taffrail_recv_view() gets it in place, any other receive a
// copy. The buffer is used up, also when there is an error other than TAFFRAIL_ERROR_ARGUMENT. It
// returns to the pool when the receiver has done with it.
//
// Rules:
// `t` is open; `buffer` was allocated, and not freed or lent since; it and its memory are not used any
// more; `options` is null or points to options.
taffrail_code_t taffrail_loan(taffrail_t *t,
                              uint32_t rank,
                              uint64_t tag,
                              taffrail_buffer_t *buffer,
                              const taffrail_options_t *options);

// Receives a message of any length in place. `*view` is NULL when there is an error. `status` may be
// null.
//
// Rules:
// `t` is open; `*view` is writable; `options` is null or points to options, `status` is null or there
// is room for a status.
taffrail_code_t taffrail_recv_view(taffrail_t *t,
                                   uint32_t source,
                                   uint64_t tag,
                                   uint64_t ignore,
                                   const taffrail_options_t *options,
                                   taffrail_view_t **view,
                                   taffrail_status_t *status);

// The bytes of a view; their number is stored in `*len`, which may be null. NULL for a null pointer.
// They stay until taffrail_view_free(), also after the endpoint is closed. A sender that breaks the
// rules can write to memory that it has lent.
//
// Rules:
// `view` is null, or was received and not freed since; `len` is null or writable.
const void *taffrail_view_bytes(const taffrail_view_t *view,
                                size_t *len);

// 1 when the bytes are the sender's memory, 0 when they are a copy.
//
// Rules:
// `view` is null, or was received and not freed since.
int32_t taffrail_view_is_loan(const taffrail_view_t *view);

// Has done with a view: a loan goes back to its sender when the endpoint makes progress. It may be
// null.
//
// Rules:
// `view` was received; it and its bytes are not used any more.
taffrail_code_t taffrail_view_free(taffrail_view_t *view);

// Registers memory, so that peers may reach it. What names it is stored in `*region`.
//
// Rules:
// `t` is open; `*region` is writable; `len` bytes at `at` stay valid until taffrail_deregister(), and
// peers that have a key may read and write them at any time until then.
taffrail_code_t taffrail_register(taffrail_t *t,
                                  void *at,
                                  size_t len,
                                  uint32_t *region);

// Ends a registration.
//
// Rules:
// `t` is open.
taffrail_code_t taffrail_deregister(taffrail_t *t, uint32_t region);

// What `rank` needs to reach registered memory.
//
// Rules:
// `t` is open; `*key` is writable.
taffrail_code_t taffrail_key(taffrail_t *t, uint32_t rank, uint32_t region, taffrail_key_t *key);

// What `rank` needs to reach a buffer.
//
// Rules:
// `t` is open; `*key` is writable; `buffer` was allocated, and as long as the peer uses the key it is
// not freed or lent, and is read or written here only when messages have made sure that the peer does
// not.
taffrail_code_t taffrail_buffer_key(taffrail_t *t,
                                    uint32_t rank,
                                    const taffrail_buffer_t *buffer,
                                    taffrail_key_t *key);

// Reads `len` bytes of memory of `rank`, beginning `offset` bytes in, and returns when they are here.
//
// Rules:
// `t` is open; `key` points to a key that `rank` has made for this rank, of memory that is still
// there; `len` bytes at `into` are writable.
taffrail_code_t taffrail_get(taffrail_t *t,
                             uint32_t rank,
                             const taffrail_key_t *key,
                             uint64_t offset,
                             void *into,
                             size_t len);

// Writes `len` bytes to memory of `rank`, beginning `offset` bytes in, and returns when they are
// there.
//
// Rules:
// As taffrail_get(); `len` bytes at `data` are readable.
taffrail_code_t taffrail_put(taffrail_t *t,
                             uint32_t rank,
                             const taffrail_key_t *key,
                             uint64_t offset,
                             const void *data,
                             size_t len);

// Starts a taffrail_get().
//
// Rules:
// As taffrail_get(); the bytes at `into` stay writable, and are used by nobody else, until the
// operation is over. `*request` is writable.
taffrail_code_t taffrail_iget(taffrail_t *t,
                              uint32_t rank,
                              const taffrail_key_t *key,
                              uint64_t offset,
                              void *into,
                              size_t len,
                              taffrail_request_t *request);

// Starts a taffrail_put().
//
// Rules:
// As taffrail_put(); the bytes at `data` stay readable and unchanged until the operation is over.
// `*request` is writable.
taffrail_code_t taffrail_iput(taffrail_t *t,
                              uint32_t rank,
                              const taffrail_key_t *key,
                              uint64_t offset,
                              const void *data,
                              size_t len,
                              taffrail_request_t *request);

// Sends an active message: the handler with this number runs at the target when it makes progress.
// Active messages of one sender arrive in the order sent.
//
// Rules:
// `t` is open; `len` bytes at `payload` are readable.
taffrail_code_t taffrail_send_am(taffrail_t *t,
                                 uint32_t rank,
                                 uint16_t handler,
                                 uint64_t header,
                                 const void *payload,
                                 size_t len);

// Says what runs when an active message for `handler` arrives, instead of what was said before.
// `argument` is passed to it as it is.
//
// Rules:
// `t` is open. `run` and `argument` are good as long as it is.
taffrail_code_t taffrail_on_am(taffrail_t *t,
                               uint16_t handler,
                               taffrail_handler_t run,
                               void *argument);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TAFFRAIL_H */
