// Package browsertest opens the debug page in a headless Chromium.
package browsertest
