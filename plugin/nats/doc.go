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
// # Heartbeats
//
// A source of Subjects publishes a heartbeat below its prefix each second, and ends when three
// of them have not come back: after a half-open connection, and after the server has taken away
// the right to the subscription. It stands again soon after the right is given back. So its user
// must be allowed to publish and to subscribe to the subjects below the prefix. A source of
// KeyValue hears the server's heartbeats, and ends after six seconds of silence.
//
// In a cluster, the other servers learn of a subscription a moment later than the source's own.
// What is published there meanwhile is lost, and seen by the re-checks of [signals.WithLag].
// While the route between two servers is cut, hints that are published at one are lost at the
// other, and no client notices. If a source runs at each of the two, each misses heartbeats of
// the other one, and says Missed within a second after the route is mended. Otherwise an audit
// sees these changes. A replica of a bucket that is cut off from the leader of the bucket's
// stream answers direct reads with the state from before the cut, while hints may still come by
// way of a third server: so [signals.WithLag] has to be longer than the cuts that an application
// wants to sit out, or an audit sees these changes, too.
//
// # Keys
//
// A key becomes one token of a subject. [Encode] leaves letters, digits, '-', '_' and '/'
// as they are, and writes every other byte as '=' and two hexadecimal digits. So if a
// client has chosen the key ('*', '>', "a.b", a space, a line break), it can neither
// subscribe nor publish anywhere else with it. [Decode] is the inverse of Encode. It also
// accepts keys that other programs have written, such as "orders.17": it leaves '.' as it is.
package nats
