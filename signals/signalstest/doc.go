// Package signalstest has the tests that every [signals.Source] should pass, and [Bus], an
// engine in memory whose connections can be cut at any moment.
//
// A source's own test describes its engine and calls [Run]:
//
//	func TestConformance(t *testing.T) {
//		signalstest.Run(t, func(t *testing.T) signalstest.Engine[string] {
//			server := startServer(t)
//			return signalstest.Engine[string]{
//				Source: func() signals.Source[string] { return mine.Watch(server.Addr()) },
//				Write:  …, Read: …, Key: …, Cut: server.CloseConnections,
//			}
//		})
//	}
//
// [Checks] returns the checks, each of which can also be run alone. They run sources at a
// [signals.Runner], and test that a source stands only when hints arrive, at the start and at
// each reconnection, and not where its engine accepts the subscription and delivers nothing, from
// the beginning or from some time on; that no wait is lost or answered twice, whenever the
// connection breaks; that an overflow is a gap; that a source does not seem to stand while its
// engine is stopped, or refuses the subscription; that no wait is lost whose hint comes from another
// server or partition; and that Run ends with its context, leaves no goroutine behind, and does not call
// the sink afterwards. Reads that lag behind their hints, and bulk reads that hang, are the Runner's
// concern, whatever the engine.
package signalstest
