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
// source takes them at once, because a sink does not block. The source's connection must be
// a session of its own: not one of a pool, and not through a pooler in transaction mode.
//
// # Connections
//
// The source makes its connection with a function of yours, which chooses TLS, credentials
// and hosts. After a failure Run ends, and [signals.Runner.Run] runs it again, with back-off.
// When nothing has been heard for ten seconds, the source sends a ping, and ends if it is
// not answered within ten more.
package postgres
