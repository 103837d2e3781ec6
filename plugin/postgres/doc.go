// Package postgres has a source of hints for package signals that hears them from
// PostgreSQL: LISTEN and NOTIFY.
//
// A notification is part of its transaction. [Notify] in the transaction that changes the
// state is heard when, and only when, that commits: a writer cannot die between its change
// and its hint. Notifications carry no sequence: those that are sent while the listener's
// connection is broken are gone, so that the source says Missed once it listens again.
//
// # Limits
//
// A payload has at most 7,999 bytes, and so a key not many fewer: [Notify] refuses a
// longer one before it sends anything. Equal notifications of one transaction are folded
// into one. A transaction that notifies takes a lock of the whole server while it commits.
// Notifications wait in a queue of 8 GB until every listener has taken them; the source
// takes them at once, because a sink does not block. Its connection must be a session of
// its own: not one of a pool, and not through a pooler in transaction mode.
//
// # Connections
//
// The source makes its connection with a function of the user's, which decides about TLS,
// credentials and hosts. After a failure Run ends, and [signals.Runner.Run] runs it again,
// with back-off. A connection on which nothing is heard for ten seconds is asked whether
// it still stands.
package postgres
