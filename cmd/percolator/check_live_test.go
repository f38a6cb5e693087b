package main

import (
	"bytes"
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/bigtable"
	btapb "cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/cmd/percolator/internal/golden"
	"github.com/gopercolator/percolator/internal/probe"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// newLiveCluster is an instance with identities, and an app profile that routes to several
// clusters. It has the table documents, and no schema.
func newLiveCluster(t *testing.T) *cluster {
	t.Helper()
	of := func(role string, tables ...string) emulator.Rights {
		r := emulator.Rights{Instance: []string{"bigtable.instances.ping"}, Tables: map[string][]string{}}
		for _, table := range tables {
			r.Tables[table] = emulator.Role(role)
		}
		return r
	}
	store, err := emulator.Start(emulator.InMemory(), emulator.AppProfiles(map[string]emulator.AppProfile{"anywhere": {}}), emulator.Principals(map[string]emulator.Rights{
		"admin":  {Instance: emulator.Role("roles/bigtable.admin")},
		"worker": of("roles/bigtable.user", "documents", "percolator_meta"),
		"oracle": of("roles/bigtable.reader", "percolator_meta"),
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	c := &cluster{t: t, project: "p", instance: "i", options: store.ClientOptionsOf("admin"), become: store.ClientOptionsOf}
	c.serveOracle()
	c.administer(func(ctx context.Context, admin *bigtable.AdminClient) error {
		for name, families := range map[string][]string{"percolator_meta": {"meta", "oracle"}, "documents": {"data", "lock", "write", "notify"}} {
			conf := bigtable.TableConf{TableID: name, Families: map[string]bigtable.GCPolicy{}}
			for _, f := range families {
				conf.Families[f] = bigtable.NoGcPolicy()
			}
			if err := admin.CreateTableFromConf(ctx, &conf); err != nil {
				return err
			}
		}
		return nil
	})
	return c
}

// measured is what differs from run to run in what "check --live" prints.
var measured = []struct {
	pattern *regexp.Regexp
	name    string
}{
	{regexp.MustCompile(`percolator_probe_\d{8}t\d{6}_[0-9a-f]{8}`), "<scratch table>"},
	{regexp.MustCompile(`(\d+ conditional mutations|\d+ concurrent .* row|ended after|p50|p99|in|±) [0-9.]+(µs|ms|s)\b`), "$1 <time>"},
	{regexp.MustCompile(`-?[0-9.]+(µs|ms|s) off`), "<time> off"},
	{regexp.MustCompile(`\d+/s\b`), "<rate>/s"},
	{regexp.MustCompile(`(?:\d+|\+Inf) timestamps/s from (\d+) callers at once, over \d+`), "<rate> timestamps/s from $1 callers at once, over <n>"}, // infinitely many in virtual time
	{regexp.MustCompile(`saw \d+ changes`), "saw <n> changes"},
	{regexp.MustCompile(`the year \d+ \(today's\)`), "the year <year> (today's)"},
}

func TestCheckLiveSession(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, testCheckLiveSession)
}

func testCheckLiveSession(t *testing.T) {
	cl := newLiveCluster(t)
	s := session{c: cl}
	s.run(cli.ExitOK, "check", "--live", "--dry-run", "--identity", "worker:documents=worker")
	s.run(cli.ExitOK, "check", "--live", "--several-clusters", "anywhere", "--identity", "worker:documents=worker", "--identity", "oracle:documents=oracle")
	s.run(cli.ExitOK, "check", "--live", "--only", "missing-row", "-o", "json")
	s.run(cli.ExitFindings, "check", "--live", "--only", "identities", "--identity", "reader=worker")
	s.run(cli.ExitOK, "check", "--live", "--only", "missing-row", "--dry-run", "-o", "json")
	s.run(cli.ExitUsage, "check", "--live", "--max-requests", "1000")
	s.run(cli.ExitUsage, "check", "--live", "--max-time", "2h")
	s.run(cli.ExitUsage, "check", "--live", "--only", "families")
	s.run(cli.ExitUsage, "check", "--live", "--identity", "nobody=worker")
	s.run(cli.ExitUsage, "check", "--dry-run")
	text := s.text.String()
	for _, m := range measured {
		text = m.pattern.ReplaceAllString(text, m.name)
	}
	golden.Compare(t, "check_live.txt", normalized(text))
	cl.administer(func(ctx context.Context, admin *bigtable.AdminClient) error {
		left, err := admin.Tables(ctx)
		if slices.Sort(left); !slices.Equal(left, []string{"documents", "percolator_meta"}) {
			t.Errorf("left are %q", left)
		}
		return err
	})
}

// A program reads what "check --live" prints as it reads what "check" prints, and what was sent.
func TestCheckLiveAsJSON(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, testCheckLiveAsJSON)
}

func testCheckLiveAsJSON(t *testing.T) {
	r := newLiveCluster(t).must(cli.ExitOK, "check", "--live", "--skip", "request-shapes,one-winner,latency,oracle,sizes,progress", "-o", "json")
	var out checkReport
	if err := json.Unmarshal([]byte(r.out), &out); err != nil {
		t.Fatal(err)
	}
	sent := probe.Cost{}
	for _, c := range out.Checks {
		sent.Requests += c.Sent.Requests
		for _, f := range c.Findings {
			remedyExists(t, f.Remedy)
		}
	}
	if len(out.Checks) != len(probe.Lines())-6 || out.Worst != saysNotChecked {
		t.Errorf("%d lines, worst %q", len(out.Checks), out.Worst)
	}
	if total := out.Live.Sent.Requests; sent.Requests > total || total > out.Live.Most.Requests {
		t.Errorf("the lines sent %d of %d requests; announced were %d", sent.Requests, total, out.Live.Most.Requests)
	}
}

// Without the right to remove tables, nothing is done, and that is an error of its own.
func TestCheckLiveWithoutRights(t *testing.T) {
	t.Parallel()
	cl := newLiveCluster(t)
	cl.options = cl.become("worker")
	if r := cl.must(cli.ExitFailure, "check", "--live"); !strings.Contains(r.stderr, "roles/bigtable.admin") {
		t.Error(r.stderr)
	}
}

// An interrupted command removes its tables.
func TestCheckLiveInterrupted(t *testing.T) {
	t.Parallel()
	cl := newLiveCluster(t)
	ctx, interrupt := context.WithCancel(cl.connected(context.Background()))
	defer interrupt()
	created := func() (there bool) {
		cl.administer(func(ctx context.Context, admin *bigtable.AdminClient) error {
			names, err := admin.Tables(ctx)
			there = slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "percolator_probe_") })
			return err
		})
		return there
	}
	ended := make(chan int, 1)
	var out, log bytes.Buffer
	go func() {
		ended <- execute(ctx, []string{"check", "--live", "--project", "p", "--instance", "i", "--skip", "oracle"}, strings.NewReader(""), &out, &log)
	}()
	for !created() {
		select {
		case code := <-ended:
			t.Fatalf("it ended with %d before it was interrupted\n%s%s", code, out.String(), log.String())
		default:
		}
	}
	interrupt()
	if code := <-ended; code != cli.ExitFindings || created() {
		t.Errorf("exit status %d, tables left: %v\n%s%s", code, created(), out.String(), log.String())
	}
}

// TestCheckLiveFindsAProfile: that of the instance which routes to several clusters is tried.
func TestCheckLiveFindsAProfile(t *testing.T) {
	t.Parallel()
	cl := newLiveCluster(t)
	anywhere := &btapb.AppProfile{Name: "projects/p/instances/i/appProfiles/anywhere", RoutingPolicy: &btapb.AppProfile_MultiClusterRoutingUseAny_{
		MultiClusterRoutingUseAny: &btapb.AppProfile_MultiClusterRoutingUseAny{}}}
	for want, instance := range map[string]*profiles{
		`"anywhere" refuses`:         {list: []*btapb.AppProfile{profile("default", "c1", true), anywhere}},
		"no app profile":             {list: []*btapb.AppProfile{profile("default", "c1", true)}},
		"looking for an app profile": {refuse: status.Error(codes.PermissionDenied, "no")},
	} {
		cl.instances = instance.serve(t)
		ctx := cl.connected(t.Context())
		var out, log bytes.Buffer
		code := execute(ctx, []string{"check", "--live", "--project", "p", "--instance", "i", "--only", "cluster-routing"}, strings.NewReader(""), &out, &log)
		if code != cli.ExitOK || !strings.Contains(out.String(), want) {
			t.Errorf("exit status %d, want %q\n%s%s", code, want, out.String(), log.String())
		}
	}
}
