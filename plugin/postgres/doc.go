// Package postgres has a source of hints for package signals that hears them from
// PostgreSQL: LISTEN and NOTIFY.
//
// A notification is part of its transaction. If the transaction that changes the state calls
// [Notify], the hint is sent when, and only when, it commits: a writer cannot die between its
// change and its hint. Notifications have no sequence numbers. Those that are sent while the
// listener's connection is broken are lost, so the source calls Missed when it listens again.
//
// # Limits
//
// A payload has at most 7,999 bytes: the position, a space and the key. [Notify] refuses a
// longer one before it sends anything. PostgreSQL delivers equal notifications of one
// transaction once. A transaction that notifies takes a lock of the whole server while it
// commits. Notifications wait in a queue of 8 GB until every listener has taken them; the
// source takes them at once, because a sink does not block. A full queue makes commits fail
// that notify: watch [Source.QueueUsed], which signals.Stats and its metrics show. The source's
// connection must be a session of its own: not one of a pool, and not through a pooler in
// transaction or statement mode, where the source never stands.
//
// A standby that answers reads is behind the notifications, which come from the primary; see
// [signals.WithLag].
//
// # Connections
//
// The source makes its connection with a function of yours, which chooses TLS, credentials
// and hosts. After a failure Run ends, and [signals.Runner.Run] runs it again, with back-off.
// Every ten seconds the source asks the server whether its session still listens, and how full the
// queue is, and notifies itself on a channel of its own. It ends if the session is another one, as after a failover
// behind a proxy that keeps connections, or if it has not heard itself for twenty seconds. Where
// the server's process is not the one with which the connection was made, a pooler stands between:
// the first notification to itself then comes from a second connection, because a pooler would
// deliver one from the same.
//
// A server that hears nothing of a connection whose other end is gone
// keeps its session, and that session's place in the queue, for hours. So the source sets
// tcp_user_timeout and the keepalives of its session: the server gives up after 30 seconds.
// It sets idle_session_timeout to 0, too. For the connections of others, set them in postgresql.conf, or in the connection string.
package postgres
