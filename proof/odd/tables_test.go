package odd

import "maps"

// How it goes on, in most rows.

// atOnce is for user code that runs on the caller's goroutine, and whose panic is the caller's.
func atOnce(result string) map[User]string {
	return map[User]string{Panics: "panics", Exits: "exits", CallsBack: result, Closes: result, Stays: "stays"}
}

// recovered is for a callback that runs on the goroutine of a verb that returns result, and whose panic is recovered.
func recovered(result string) map[User]string {
	return map[User]string{Panics: result + ", reported", Exits: "exits", CallsBack: result, Closes: result, Stays: "stays"}
}

// elsewhere is for a callback that runs on another goroutine.
func elsewhere(result string) map[User]string {
	return map[User]string{Panics: result + ", reported", Exits: result, CallsBack: result, Closes: result, Stays: result}
}

// silently is elsewhere where nobody is told of a panic, or where user code is not called.
func silently(result string) map[User]string {
	return map[User]string{Panics: result, Exits: result, CallsBack: result, Closes: result, Stays: result}
}

// ofSlices is for a slice.
func ofSlices(result string) map[User]string {
	return map[User]string{Appends: result, Changes: result, Keeps: result}
}

// with is want, but for one user.
func with(user User, how string, want map[User]string) map[User]string {
	want = maps.Clone(want)
	want[user] = how
	return want
}

// and is the cells of both.
func and(a, b map[User]string) map[User]string {
	a = maps.Clone(a)
	maps.Copy(a, b)
	return a
}
