// Package debug serves a page that shows what running purgatories hold, for the people
// who operate and develop a server: how many operations wait, for which keys and how long;
// whether they end because their condition was met or only by their timeouts; whether timeouts
// are on time, and which callbacks block.
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
// The page begins with what there is to say about the process, and a line for each purgatory, those in trouble first. ?name= selects what
// has that name, and may be given several times.
//
// [Page.AddSignals], [Page.AddQueue] and [Page.AddWatermark] add sources of hints from other processes, lines of items, and watermarks.
//
// What is wrong is named as itself, with its key where there is one: nobody checks, the condition is never true, clients give up, a
// callback blocks, timeouts are late, full. No option is needed for that; how long operations waited is shown of
// purgatories that were made with purgatory.WithDiagnostics. docs/operations.md says what to do about each note.
package debug
