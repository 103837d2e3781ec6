// Package browsertest opens the debug page in a headless Chromium. It is a module of
// its own, so that the library does not depend on what drives a browser.
package browsertest
