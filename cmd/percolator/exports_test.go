package main

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator/internal/change"
	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/cmd/percolator/internal/golden"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/observers/exportqueue"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// letterNumbers are those of dead letters, which differ from run to run.
var letterNumbers = regexp.MustCompile(`/000\.[0-9a-f]{10}\.[0-9a-f]{2}\.[0-9a-f]{16}`)

// TestExportsSession: what a receiver has refused is listed, retried and dropped.
func TestExportsSession(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testExportsSession)
}

func testExportsSession(t *testing.T) {
	queue, err := exportqueue.New(exportqueue.Config{Table: "search_exports", Name: "search", Partitions: 1, DeadLetters: "dead_letters"})
	if err != nil {
		t.Fatal(err)
	}
	letters, _ := queue.DeadLetterTable()
	cl := newCluster(t, &percolator.Schema{Tables: []percolator.Table{queue.Table(), letters, {Name: "documents"}}})
	var mended atomic.Bool
	idle := cl.deliver(queue, func(_ context.Context, batch []exportqueue.Entry) error {
		if mended.Load() {
			return nil
		}
		return exportqueue.Reject(errors.New("400 Bad Request:\nno title"), batch...)
	})
	s := session{c: cl}
	s.run(cli.ExitOK, "exports", "ls", "dead_letters")
	s.run(cli.ExitOK, "check", "--strict", "--only", "dead-letters")
	cl.add(queue, "com.example/", "a document", "org.example/", "another", "b\x00\xff", "")
	idle()
	s.run(cli.ExitOK, "exports", "ls", "dead_letters")
	s.run(cli.ExitOK, "exports", "ls", "dead_letters", "--limit", "1")
	s.run(cli.ExitOK, "check", "--only", "dead-letters")
	s.run(cli.ExitFindings, "check", "--strict", "--only", "dead-letters", "-o", "json")
	s.run(cli.ExitOK, "exports", "ls", "dead_letters", "--queue", "search_exports", "--limit", "1", "-o", "json")
	s.run(cli.ExitFailure, "exports", "ls", "dead_letters", "--queue", "other")
	s.run(cli.ExitOK, "exports", "retry", "dead_letters", "--all", "--dry-run")
	first := letterNumbers.FindString(s.text.String()) + "00000000"
	mended.Store(true)
	s.run(cli.ExitOK, "exports", "retry", "dead_letters", "search_exports"+first)
	idle()
	s.run(cli.ExitNotFound, "exports", "retry", "dead_letters", "search_exports"+first)
	s.runWith(cli.ExitUsage, "n\n", "exports", "drop", "dead_letters", "--queue", "search_exports")
	s.run(cli.ExitOK, "exports", "drop", "dead_letters", "--queue", "search_exports", "--dry-run", "-o", "json")
	s.run(cli.ExitOK, "exports", "drop", "dead_letters", "--queue", "search_exports", "--yes")
	s.run(cli.ExitOK, "exports", "ls", "dead_letters", "-o", "json")
	s.run(cli.ExitUsage, "exports", "drop", "dead_letters", "--queue", "q", "--all")
	s.run(cli.ExitUsage, "exports", "retry", "dead_letters")
	s.run(cli.ExitUsage, "exports", "ls")
	cl.must(cli.ExitOK, "set", "documents", "a", "title", "x")
	s.run(cli.ExitUsage, "exports", "ls", "documents")
	golden.Compare(t, "exports.txt", normalized(letterNumbers.ReplaceAllString(s.text.String(), "/000.<letter>")))
}

// deliver runs a worker for a queue until the test ends. idle waits until it has nothing to do.
func (c *cluster) deliver(q *exportqueue.Queue, f func(context.Context, []exportqueue.Entry) error) (idle func()) {
	c.t.Helper()
	r := observers.NewRegistry()
	q.Observe(r, c.client, f)
	w, err := observers.NewWorker(c.client, r, observers.Config{})
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	c.t.Cleanup(func() { stop(); <-ended })
	return func() {
		c.t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), clusterLimit)
		defer cancel()
		if err := w.WaitIdle(ctx); err != nil {
			c.t.Fatal(err)
		}
	}
}

// add commits keys and values as entries of a queue.
func (c *cluster) add(q *exportqueue.Queue, entries ...string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), clusterLimit)
	defer cancel()
	if _, err := c.client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
		for i := 0; i < len(entries); i += 2 {
			if err := q.Add(tx, entries[i], []byte(entries[i+1])); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		c.t.Fatal(err)
	}
}

// More letters than one transaction takes are handled, those of large values in parts as well.
func TestManyDeadLetters(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testManyDeadLetters)
}

func testManyDeadLetters(t *testing.T) {
	queue, err := exportqueue.New(exportqueue.Config{Table: "exports", Name: "e", Partitions: 1, DeadLetters: "dead"})
	if err != nil {
		t.Fatal(err)
	}
	letters, _ := queue.DeadLetterTable()
	cl := newCluster(t, &percolator.Schema{Tables: []percolator.Table{queue.Table(), letters}})
	idle := cl.deliver(queue, func(_ context.Context, batch []exportqueue.Entry) error { return exportqueue.Reject(nil, batch...) })
	for range 3 {
		var entries []string
		for range change.LettersAtOnce/2 + 1 {
			entries = append(entries, "k", "v")
		}
		cl.add(queue, append(entries, "large", strings.Repeat("x", change.LetterBytesAtOnce/2+1))...)
	}
	idle()
	const all = 3 * (change.LettersAtOnce/2 + 2)
	if out := cl.must(cli.ExitOK, "exports", "drop", "dead", "--all", "--yes").out; strings.Count(out, "dropped: exports/") != all {
		t.Errorf("of %d letters %d were dropped:\n%s", all, strings.Count(out, "dropped: exports/"), out)
	}
	if out := cl.must(cli.ExitOK, "exports", "ls", "dead").out; out != "no dead letters\n" {
		t.Errorf("left are\n%s", out)
	}
}

// Who names another table, the queue's own for one, or a queue that there is not, is told that.
// Nothing is corrupt, and "no dead letters" would be wrong. A letter that is named twice is one.
func TestMistakesWithDeadLetters(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		queue, err := exportqueue.New(exportqueue.Config{Table: "search_exports", Name: "search", Partitions: 1, DeadLetters: "dead_letters"})
		if err != nil {
			t.Fatal(err)
		}
		letters, _ := queue.DeadLetterTable()
		cl := newCluster(t, &percolator.Schema{Tables: []percolator.Table{queue.Table(), letters, {Name: "documents"}}})
		idle := cl.deliver(queue, func(_ context.Context, batch []exportqueue.Entry) error {
			return exportqueue.Reject(errors.New("400 Bad Request"), batch...)
		})
		cl.add(queue, "a", "x")
		idle()
		cl.must(cli.ExitOK, "set", "documents", "a", "title", "x")
		for _, table := range []string{"documents", "search_exports"} {
			if r := cl.run("exports", "ls", table); strings.Contains(r.stderr, "corrupt") {
				t.Errorf("exports ls %s: %q, of a table in which nothing is corrupt", table, r.stderr)
			}
		}
		for _, command := range []string{"exports ls dead_letters --queue search_export", "exports retry dead_letters --queue search_export"} {
			if r := cl.run(strings.Fields(command)...); r.code == cli.ExitOK {
				t.Errorf("%s: %q, of a queue that there is not", command, r.out)
			}
		}
		letter := strings.Fields(strings.Split(cl.must(cli.ExitOK, "exports", "ls", "dead_letters").out, "\n")[1])[0]
		if r := cl.run("exports", "retry", "dead_letters", letter, letter); r.code != cli.ExitOK {
			t.Errorf("a letter named twice: exit status %d\n%s%s", r.code, r.out, r.stderr)
		}
	})
}
