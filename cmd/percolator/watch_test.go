package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/cmd/percolator/internal/golden"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

var (
	watchedLine = regexp.MustCompile(`(?m)^\d{10,}  `)
	positions   = regexp.MustCompile(`\d{10,}(\.[A-Za-z0-9_-]*)?\.[A-Za-z0-9_-]+`)
)

func TestWatch(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testWatch)
}

func testWatch(t *testing.T) {
	cl := newCluster(t, cellSchema())
	since := fmt.Sprint(int64(cl.set(map[percolator.Cell]string{{Table: "documents", Row: "first", Column: "title"}: "before"})))
	cl.set(map[percolator.Cell]string{
		{Table: "documents", Row: "a", Column: "title"}:        "A <title>",
		{Table: "documents", Row: "a", Column: "url"}:          "http://a.example/",
		{Table: "documents", Row: "\x00\xff", Column: "title"}: "\xff",
		{Table: "accounts", Row: "alice", Column: "balance"}:   "10",
	})
	time.Sleep(time.Second)
	cl.must(cli.ExitOK, "del", "documents", "a", "title")
	s := session{c: cl}
	s.run(cli.ExitOK, "watch", "documents", "--since", since, "--limit", "4")
	r := s.run(cli.ExitOK, "watch", "documents", "title", "url", "--since", "10m", "--limit", "5", "-o", "json")
	at := positions.FindString(r.stderr)
	cl.must(cli.ExitOK, "set", "documents", "a", "title", "another")
	s.run(cli.ExitOK, "watch", "documents", "title", "--since", at, "--limit", "1")
	s.run(cli.ExitOK, "watch", "documents", "title", "--name", "indexer", "--since", since, "--limit", "4")
	cl.must(cli.ExitOK, "set", "documents", "b", "title", "one more")
	s.run(cli.ExitOK, "watch", "documents", "title", "--name", "indexer", "--limit", "1")
	s.run(cli.ExitUsage, "watch", "documents", "title", "--name", "indexer", "--since", since)
	s.run(cli.ExitOK, "watch", "documents", "title", "--name", "indexer", "--since", since, "--restart", "--limit", "1")
	s.run(cli.ExitOK, "gc", "hold", "ls")
	s.run(cli.ExitUsage, "watch")
	s.run(cli.ExitUsage, "watch", "documents", "--since", "yesterday")
	s.run(cli.ExitUsage, "watch", "documents", "--limit", "-1")
	s.run(cli.ExitUsage, "watch", "documents", "--hold", "1ms")
	s.run(cli.ExitUsage, "watch", "nothing")
	text := watchedLine.ReplaceAllString(s.text.String(), "<ts>  ")
	text = positions.ReplaceAllString(text, "<position>")
	golden.Compare(t, "watch.txt", normalized(strings.ReplaceAll(text, since, "<since>")))
}
