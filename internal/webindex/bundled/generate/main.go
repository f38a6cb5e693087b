// Command generate writes the bundled crawl to the file named by its argument.
package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/gopercolator/percolator/internal/webindex/bundled/site"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("one argument is wanted: the file to write")
	}
	s, err := site.New()
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := s.Write(&b); err != nil {
		return err
	}
	return os.WriteFile(args[0], b.Bytes(), 0o644) //nolint:gosec // as readable as the sources beside it
}
