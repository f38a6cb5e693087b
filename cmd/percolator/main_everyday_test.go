package main

import (
	"strings"
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// TestEverydaySession: a cell as messages write it is an argument, what was mistyped has a
// suggestion, a refused value names the row that has it, and a list is printed again and again.
func TestEverydaySession(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testEverydaySession)
}

func testEverydaySession(t *testing.T) {
	s := session{c: newCluster(t, cellSchema())}
	s.run(cli.ExitOK, "set", `documents/"a"/"url"`, "http://a.example/")
	s.run(cli.ExitOK, "get", `documents/"a"/"url"`)
	s.run(cli.ExitConflict, "set", "documents", "b", "url", "http://a.example/")
	s.run(cli.ExitUsage, "gett", "documents", "a")
	s.run(cli.ExitUsage, "notify", "rety")
	s.run(cli.ExitUsage, "get", "documents", "a", "--as-off", "1m")
	s.run(cli.ExitUsage, "get", "document", "a")
	s.run(cli.ExitFailure, "get", "documents", "a", "--instance", "other")
	s.run(cli.ExitUsage, "schema", "verify", "documents", "by-ur")
	s.run(cli.ExitOK, "gc", "hold", "ls", "--watch=1s", "--timeout", "2500ms")
	s.run(cli.ExitOK, "gc", "hold", "ls", "--watch", "--timeout", "2500ms", "-o", "json")
	s.run(cli.ExitUsage, "gc", "hold", "ls", "--watch=-1s")
	s.run(cli.ExitUsage, "gc", "hold", "ls", "--watch", "1s")
	s.run(cli.ExitUsage, "notify", "ls", "--watch", "1s")
	s.compare("everyday.txt")
}

// A mistyped name of a command, a column, an observed column or a queue has a suggestion, whichever
// command it is an argument of.
func TestMistypedNames(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		cl := newCluster(t, &percolator.Schema{Tables: []percolator.Table{{Name: "documents", Observed: []string{"contents"}}}})
		cl.must(cli.ExitOK, "set", "documents", "a", "contents", "x")
		for _, c := range []struct{ args, want string }{
			{"help gett", `did you mean "get"?`},
			{"help notify rety", `did you mean "retry"?`},
			{"get documents a content", `did you mean "contents"?`},
			{"observers backfill documents content index", `did you mean "contents"?`},
			{"observers forget documents content index --yes", `did you mean "contents"?`},
			{"notify retry documents a content index", `did you mean "contents"?`},
			{"check --only worker", `did you mean "workers"?`},
			{"get documents a -o jsn", `did you mean "json"?`},
		} {
			r := cl.run(strings.Fields(c.args)...)
			if !strings.Contains(r.stderr, c.want) || r.code == cli.ExitOK {
				t.Errorf("percolator %s: exit status %d, %q, want %s", c.args, r.code, r.stderr, c.want)
			}
			if strings.Contains(r.stderr, "the same command resumes there") {
				t.Errorf("percolator %s: it has not started, and will not resume: %q", c.args, r.stderr)
			}
		}
	})
}
