// Command cores shows how the library behaves as processors are added: it measures a matrix of workloads with 1, 2, 4 and so
// on up to all processors, beside peers, and writes it to one file. It also looks for the cliff of a hot key, measures words
// that processors share, and simulates machines that have more processors.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"time"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func short(d time.Duration) string {
	if d < 10*time.Microsecond {
		return d.Round(time.Nanosecond).String()
	}
	return d.Round(100 * time.Nanosecond).String()
}

func main() {
	out := flag.String("o", "results/cores.json", "`file` for the matrix")
	window := flag.Duration("window", 25*time.Millisecond, "how long a workload runs at a time")
	most := flag.Duration("for", 2*time.Minute, "how long the matrix is measured, in rounds; a figure of the other experiments takes a tenth of it at most")
	var only regexp.Regexp
	flag.TextVar(&only, "only", regexp.MustCompile(""), "measure only the rows of the matrix whose names match this `regexp`, such as '^P1$'")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: cores [flags] [matrix | cliff | bare | words | model]")
		flag.PrintDefaults()
	}
	flag.Parse()
	switch what := flag.Arg(0); what {
	case "", "matrix":
		m := measureMatrix(&only, *window, *most, os.Stderr)
		must(m.save(*out))
		m.write(os.Stdout)
	case "cliff":
		writeCliff(os.Stdout, 8**window, *most/10, 1, 2, 5, 10, 30, 100, 200)
	case "bare":
		writeBare(os.Stdout, *most/10)
	case "words":
		writeWords(os.Stdout, *most/10)
	case "model":
		m, err := readMatrix(*out)
		must(err)
		writeModel(os.Stdout, m, larger...)
	default:
		fmt.Fprintf(os.Stderr, "cores: %q is none of matrix, cliff, bare, words, model\n", what)
		os.Exit(2)
	}
}
