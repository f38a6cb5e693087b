package main

import (
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/observers/exportqueue"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// What stands in a table of dead letters reaches the terminal only in a form that it does not obey.
func TestLettersArePrintable(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testLettersArePrintable)
}

func testLettersArePrintable(t *testing.T) {
	queue, err := exportqueue.New(exportqueue.Config{Table: "search_exports", Name: "search", Partitions: 1, DeadLetters: "dead_letters"})
	if err != nil {
		t.Fatal(err)
	}
	letters, _ := queue.DeadLetterTable()
	cl := newCluster(t, &percolator.Schema{Tables: []percolator.Table{queue.Table(), letters}})
	cl.set(map[percolator.Cell]string{
		{Table: "dead_letters", Row: "\x1b[2J\x1b]0;title\a/000.0000000000.00", Column: "000000000000000100000000"}: "\x00\x01kv",
	})
	s := session{c: cl}
	s.run(cli.ExitOK, "exports", "ls", "dead_letters")
	s.run(cli.ExitOK, "exports", "retry", "dead_letters", "--all", "--dry-run")
	s.run(cli.ExitOK, "exports", "drop", "dead_letters", "--all", "--dry-run")
	s.run(cli.ExitOK, "exports", "drop", "dead_letters", "--all", "--yes")
	if said := s.text.String(); text.Lines(said) != said {
		t.Errorf("%q", said)
	}
}
