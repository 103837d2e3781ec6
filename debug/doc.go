// Package debug serves a page that shows what running purgatories hold, for the people
// who operate and develop a server: how many operations wait, for which keys and how long;
// whether they end because their condition was met or only by their timeouts; whether the
// timer is on time; which keys are busy, and which callbacks are stuck.
//
//	page, err := debug.New(produces, fetches)
//	if err != nil {
//		return err
//	}
//	defer page.Close()
//	mux.Handle("/debug/purgatories", page)
//
// The package registers no handler by itself, and a page does nothing until it is requested.
// It answers a browser with HTML, and with JSON or plain text if the Accept header or
// ?format=json or ?format=text asks for it; curl gets the text.
//
// The page shows keys and operations, which may contain what clients have sent. So mount it
// where only operators can reach it, or set Options.HideDetails. The page loads nothing from
// other addresses, and its script treats what it shows as text, never as markup.
//
// The page begins with what there is to say about the process, and a line for each purgatory, those in trouble first. ?name= selects the
// purgatories of that name, and may be given several times.
//
// [Page.AddSignals] adds a source of hints from other processes. The page shows whether it is
// subscribed, when it last sent a hint, and why it ended.
//
// [Page.AddQueue] adds a line of items of package queue. The page shows how many wait and for how long, by tenant, and names
// a tenant that has most of the line, a line that is full, and one that stands still.
//
// Counters, and whether callbacks return, are shown of every purgatory. Ages, lateness, keys and how long
// callbacks run are shown of those that were made with purgatory.WithDiagnostics, or with the options that it
// stands for; the foot of the page says what is missing. An operation describes itself if it is a fmt.Stringer.
package debug
