// Package built says how this program was built, to tests that build other programs.
package built

import "runtime/debug"

// Flags returns those flags of the go command that built this program which decide whether a compiled package can be used
// again. A test that builds a program with them compiles only what it does not itself contain.
func Flags() (flags []string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "-race", "-gcflags":
			flags = append(flags, s.Key+"="+s.Value)
		}
	}
	return flags
}
