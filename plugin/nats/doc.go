// Package nats has sources of hints for package signals that hear them from NATS.
//
//	KeyValue   a JetStream key-value bucket: the hint's position is the revision. What
//	           was written during a gap is delivered afterwards, from the next revision on.
//	Subjects   core NATS: a hint is delivered at most once, with the position that the
//	           writer gave to Hint. What is published during a gap is lost, and so is the
//	           hint of a writer that dies before it publishes: audits see these changes.
//
// You make the connection, with its TLS, credentials and reconnection options; it may serve
// other purposes, too. Set nats.MaxReconnects(-1) and nats.IgnoreAuthErrorAbort(): otherwise the
// client closes the connection for good after some attempts, or when the server has refused the
// password twice, and [signals.Runner.Run] then ends with an error that says so. The pause
// before a reconnection is nats.ReconnectWait, by default 2 s. A source ends when its connection
// breaks, so that signals.Stats shows an outage while it lasts. When it is run again, it waits
// until the connection is made.
//
// # What Standing rests on
//
// A source of Subjects publishes a heartbeat below its prefix each second. If it has heard none of
// its own for four seconds it is deaf, and ends: after a half-open connection, for one, and after
// the server has taken away the right to the subscription. So its user must be allowed to publish
// and to subscribe to the subjects below the prefix, and the connection must not have nats.NoEcho.
//
// A source of KeyValue asks the server every two seconds how long the stream of the bucket is, and
// its consumer must have come as far within six seconds, by its entries or by the heartbeats that
// the server sends each second where there are none. Nothing is written to the bucket. The bucket may be a mirror:
// the source does not stand while the mirror hears nothing from its origin. The user must be
// allowed to subscribe to inboxes, and to publish to the API subjects STREAM.INFO, CONSUMER.CREATE
// and CONSUMER.DELETE of the bucket's stream. The consumer has no filter, so that a right to
// CONSUMER.CREATE must not name one.
//
// Where a source does not stand, its error has the text with which the server has refused
// something: a right, or a subscription beyond the maximum. A connection whose right to inboxes
// was taken away is made anew, because nothing else makes the client's own subscription again.
//
// In a cluster, the other servers learn of a subscription a moment later than the source's own.
// What is published there meanwhile is lost, and seen by the re-checks of [signals.WithLag].
// While the route between two servers is cut, hints that are published at one are lost at the
// other, and no client notices. If a source runs at each of the two, each misses heartbeats of
// the other one, and says Missed within a second after the route is mended. A break that is
// mended before the next heartbeat is noticed by nobody: only an audit sees the changes whose
// hints it has lost. So in a cluster a source of Subjects asks for audits at most 15 seconds apart,
// unless [signals.WithAudit] says otherwise. A replica of a bucket that is cut off from the leader of the bucket's
// stream answers direct reads with the state from before the cut, while hints may still come by
// way of a third server: so [signals.WithLag] has to be longer than the cuts that an application
// wants to sit out, or an audit sees these changes, too.
//
// A key that expires because the bucket has a TTL sends no hint, unless the bucket has limit
// markers (LimitMarkerTTL). The runner logs that once, and its statistics say so.
//
// # Keys
//
// A key becomes one token of a subject. [Encode] leaves letters, digits, '-', '_' and '/'
// as they are, and writes every other byte as '=' and two hexadecimal digits. So if a
// client has chosen the key ('*', '>', "a.b", a space, a line break), it can neither
// subscribe nor publish anywhere else with it. [Decode] is the inverse of Encode. A key that another
// program has written to a bucket keeps its name: "orders.17" and "x=41y", which Encode would not
// write, are hints for these keys. One that Encode might have written is a hint for two:
// "n=10" for itself, and for what it decodes to.
package nats
