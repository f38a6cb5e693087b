package main

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/cmd/percolator/internal/golden"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

// cluster is a Bigtable emulator and an oracle for commands that run in this process, which reach
// them in memory: it works in a bubble of testing/synctest.
type cluster struct {
	t                 *testing.T
	project, instance string
	network           network
	tso               string // the address of the oracle in network
	options           []option.ClientOption
	oracle            *tso.Client
	client            *percolator.Client                          // nil without a schema
	become            func(identity string) []option.ClientOption // nil: there are no identities
	instances         []option.ClientOption                       // nil: instances are not administered
}

// clusterLimit bounds one command, and what else a test waits for.
const clusterLimit = 2 * time.Minute

// newCluster starts one with a schema; nil: none is stored.
func newCluster(t *testing.T, schema *percolator.Schema, opts ...emulator.Option) *cluster {
	t.Helper()
	store, err := emulator.Start(append(opts, emulator.InMemory())...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	c := &cluster{t: t, project: "p", instance: "i", options: store.ClientOptions()}
	c.serveOracle()
	if schema == nil {
		return c
	}
	ctx, cancel := context.WithTimeout(context.Background(), clusterLimit)
	defer cancel()
	if err := percolator.CreateSchema(ctx, c.project, c.instance, schema, c.options...); err != nil {
		t.Fatal(err)
	}
	c.client = c.newClient(percolator.Config{})
	return c
}

func (c *cluster) serveOracle() {
	c.t.Helper()
	server, err := tso.NewServer(tso.NewMemoryStore(), tso.ServerConfig{})
	if err != nil {
		c.t.Fatal(err)
	}
	l := c.network.listen()
	c.tso = l.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, l) }()
	c.t.Cleanup(func() { stop(); <-ended })
	dialing, cancel := context.WithTimeout(ctx, clusterLimit)
	defer cancel()
	if c.oracle, err = tso.Dial(dialing, c.tso, c.network.option()); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = c.oracle.Close() })
}

// newClient opens one more client of the instance.
func (c *cluster) newClient(cfg percolator.Config) *percolator.Client {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), clusterLimit)
	defer cancel()
	cfg.Project, cfg.Instance, cfg.Oracle = c.project, c.instance, c.oracle
	client, err := percolator.NewClient(ctx, cfg, c.options...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = client.Close() })
	return client
}

// set commits values, "table row column" → value, in one transaction and waits until its locks
// are gone.
func (c *cluster) set(values map[percolator.Cell]string) tso.Timestamp {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), clusterLimit)
	defer cancel()
	ts, err := c.client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
		for cell, value := range values {
			if err := tx.Set(cell, []byte(value)); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = c.client.Flush(ctx)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return ts
}

// result is what a command left behind.
type result struct {
	code        int
	out, stderr string
}

// run runs a command against the cluster, in this process. The flags that find the cluster are
// added where the command has them.
func (c *cluster) run(args ...string) result { return c.runWith("", args...) }

// connected has the commands that run under ctx reach Bigtable and the oracle.
func (c *cluster) connected(ctx context.Context) context.Context {
	return cli.Inside{Bigtable: c.options, Oracle: []tso.DialOption{c.network.option()}, Instances: c.instances, Become: c.become}.Context(ctx)
}

// runWith is run with something on the standard input.
func (c *cluster) runWith(input string, args ...string) result {
	c.t.Helper()
	cmd, _, err := newRoot().Find(args)
	if err != nil {
		c.t.Fatal(err)
	}
	for name, value := range map[string]string{"project": c.project, "instance": c.instance, "tso": c.tso} {
		given := slices.ContainsFunc(args, func(a string) bool { return a == "--"+name || strings.HasPrefix(a, "--"+name+"=") })
		if cmd.Flags().Lookup(name) != nil && !given {
			args = append(slices.Clone(args), "--"+name+"="+value)
		}
	}
	ctx, cancel := context.WithTimeout(c.connected(context.Background()), clusterLimit)
	defer cancel()
	var out bytes.Buffer
	var log output // for a countdown and what a command tells meanwhile
	code := execute(ctx, args, strings.NewReader(input), &out, &log)
	if strings.Contains(log.String(), "percolator: percolator: ") {
		c.t.Errorf("percolator %s names itself twice: %s", strings.Join(args, " "), log.String())
	}
	return result{code, out.String(), log.String()}
}

// must is run for a command that has to end with the exit status.
func (c *cluster) must(code int, args ...string) result {
	c.t.Helper()
	r := c.run(args...)
	if r.code != code {
		c.t.Fatalf("percolator %s: exit status %d, want %d\n%s%s", strings.Join(args, " "), r.code, code, r.out, r.stderr)
	}
	return r
}

// What differs from run to run, in the order in which it is replaced.
var changing = []struct {
	pattern *regexp.Regexp
	name    string
}{
	{regexp.MustCompile(`[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "id"},
	{regexp.MustCompile(`\b[0-3][0-9a-f]{33}\b`), "stream"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)`), "time"},
	{regexp.MustCompile(`\b\d{15,19}\b`), "ts"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "address"},
	{regexp.MustCompile(`\b(?:\d+h)?(?:\d+m)?\d+(?:\.\d+)?(?:s|ms|µs) ago\b`), "age"},
}

// normalized replaces what differs from run to run: each timestamp, say, by <ts1>, <ts2>… in the
// order of their first appearance, so that equal ones stay equal. Runs of blanks become two, as the
// width of columns depends on what was replaced.
func normalized(text string) string {
	for _, c := range changing {
		names := map[string]string{}
		text = c.pattern.ReplaceAllStringFunc(text, func(found string) string {
			if c.name == "age" || c.name == "time" { // may be equal by chance
				return "<" + c.name + ">"
			}
			if names[found] == "" {
				names[found] = fmt.Sprintf("<%s%d>", c.name, len(names)+1)
			}
			return names[found]
		})
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		body := strings.TrimLeft(line, " ")
		lines[i] = line[:len(line)-len(body)] + strings.TrimRight(blanks.ReplaceAllString(body, "  "), " ")
	}
	return strings.Join(lines, "\n")
}

var blanks = regexp.MustCompile(` {2,}`)

// session collects what commands print, as a reader would see it in a terminal, for one golden
// file.
type session struct {
	c    *cluster
	text strings.Builder
}

// run runs a command that has to end with the exit status and adds it and its output to the
// session.
func (s *session) run(code int, args ...string) result { return s.runWith(code, "", args...) }

func (s *session) runWith(code int, input string, args ...string) result {
	s.c.t.Helper()
	r := s.c.runWith(input, args...)
	if r.code != code {
		s.c.t.Errorf("percolator %s: exit status %d, want %d\n%s%s", strings.Join(args, " "), r.code, code, r.out, r.stderr)
	}
	fmt.Fprintf(&s.text, "$ percolator %s\n%s", strings.Join(args, " "), r.out)
	for line := range strings.Lines(r.stderr) {
		s.text.WriteString("! " + line)
	}
	if code != cli.ExitOK {
		fmt.Fprintf(&s.text, "exit status %d\n", code)
	}
	s.text.WriteString("\n")
	return r
}

// compare compares the session with testdata/NAME.
func (s *session) compare(name string) {
	s.c.t.Helper()
	golden.Compare(s.c.t, name, normalized(s.text.String()))
}
