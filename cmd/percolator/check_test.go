package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"github.com/google/go-cmp/cmp"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/engine/membership"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// remedyExists: a remedy that is a command of this program is one that exists.
func remedyExists(t *testing.T, remedy string) {
	t.Helper()
	for part := range strings.SplitSeq(remedy, " && ") {
		words := strings.Fields(part)
		if len(words) == 0 || words[0] != "percolator" {
			continue
		}
		cmd, _, err := newRoot().Find(words[1:])
		if err != nil || !cmd.Runnable() || cmd.HasSubCommands() {
			t.Errorf("the remedy %q is no command: %v", remedy, err)
		}
	}
}

func damagedSchema() *percolator.Schema {
	return &percolator.Schema{
		Tables: []percolator.Table{
			{Name: "accounts", Observed: []string{"balance"}},
			{Name: "people", Indexes: []percolator.Index{{Name: "mail", Column: "mail", Unique: true}}},
		},
		Timing: percolator.Timing{RequestLifetime: 3 * time.Second, MetaMaxAge: 3 * time.Second}, // schema apply waits
	}
}

// administer changes the emulator's tables behind the schema's back.
func (c *cluster) administer(do func(ctx context.Context, admin *bigtable.AdminClient) error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), clusterLimit)
	defer cancel()
	admin, err := bigtable.NewAdminClient(ctx, c.project, c.instance, c.options...)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = admin.Close() }()
	if err := do(ctx, admin); err != nil {
		c.t.Fatal(err)
	}
}

func TestCheckTables(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testCheckTables)
}

func testCheckTables(t *testing.T) {
	cl := newCluster(t, damagedSchema())
	if r := cl.checked(cli.ExitOK, "--only", "families,gc-policies,indexes,schema,app-profile"); len(r) != 5 || r["families"].Level != saysOK ||
		r["gc-policies"].Level != saysOK || r["indexes"].Level != saysOK || r["schema"].Level != saysOK || r["app-profile"].Level != saysNotChecked {
		t.Errorf("an instance in order: %+v", r)
	}
	cl.administer(func(ctx context.Context, admin *bigtable.AdminClient) error {
		for _, err := range []error{
			admin.DeleteColumnFamily(ctx, "accounts", "notify"), admin.DeleteTable(ctx, "people.mail"),
			admin.SetGCPolicy(ctx, "accounts", "write", bigtable.MaxAgePolicy(time.Hour)),
			admin.SetGCPolicy(ctx, "people", "data", bigtable.MaxVersionsPolicy(1)),
			admin.SetGCPolicy(ctx, "percolator_meta", "meta", bigtable.MaxVersionsPolicy(1)),
			admin.SetGCPolicy(ctx, "percolator_meta", "oracle", bigtable.MaxAgePolicy(time.Hour)),
			admin.SetGCPolicy(ctx, "percolator_journal", "journal", bigtable.NoGcPolicy()),
		} {
			if err != nil {
				return err
			}
		}
		return nil
	})
	r := cl.checked(cli.ExitFindings, "--only", "families,gc-policies")
	if got := r["families"]; got.Level != saysFailed || len(got.Findings) != 2 || !strings.Contains(got.Findings[0].Saw, "accounts lacks the column family notify") ||
		!strings.Contains(got.Findings[1].Saw, "people.mail does not exist") {
		t.Errorf("families: %+v", got)
	}
	var policies []string
	for _, f := range r["gc-policies"].Findings {
		policies = append(policies, f.Level+" "+strings.Join(strings.Fields(f.Remedy)[6:9], " "))
	}
	if want := []string{"warning percolator_meta meta never", "failed percolator_meta oracle never", "warning percolator_journal journal maxversions=1", "failed accounts write never", "failed people data never"}; !cmp.Equal(policies, want) {
		t.Errorf("policies %q, want %q", policies, want)
	}

	// The remedy helps.
	file := filepath.Join(t.TempDir(), "schema.yaml")
	if err := os.WriteFile(file, []byte(cl.must(cli.ExitOK, "schema", "show").out), 0o600); err != nil {
		t.Fatal(err)
	}
	cl.must(cli.ExitOK, "schema", "apply", file, "--yes")
	if r := cl.checked(cli.ExitOK, "--only", "families,schema", "--schema", file); r["families"].Level != saysOK || r["schema"].Level != saysOK {
		t.Errorf("after the remedy: %+v", r)
	}
}

func TestCheckSchemaAndIndexes(t *testing.T) {
	t.Parallel()
	cl := newCluster(t, damagedSchema())
	next := damagedSchema()
	next.Tables[0].Indexes = []percolator.Index{{Name: "owner", Column: "owner"}}
	ctx, cancel := context.WithTimeout(context.Background(), clusterLimit)
	defer cancel()
	file := filepath.Join(t.TempDir(), "schema.yaml")
	if err := os.WriteFile(file, []byte(cl.must(cli.ExitOK, "schema", "show").out), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := percolator.CreateSchema(ctx, cl.project, cl.instance, next, cl.options...); err != nil {
		t.Fatal(err)
	}
	r := cl.checked(cli.ExitFindings, "--only", "schema,indexes", "--schema", file)
	if got := r["schema"]; got.Level != saysFailed || !strings.Contains(got.Findings[0].Saw, "index removed accounts owner") && !strings.Contains(got.Findings[0].Saw, "owner") {
		t.Errorf("schema: %+v", got)
	}
	if got := r["indexes"]; got.Level != saysWarning || got.Findings[0].Remedy != "percolator schema backfill accounts owner" {
		t.Errorf("indexes: %+v", got)
	}
	cl.must(cli.ExitUsage, "check", "--schema", file+".missing")

	bare := newCluster(t, nil)
	if r := bare.checked(cli.ExitFindings); r["connection"].Level != saysFailed || r["schema"].Level != saysFailed || r["locks"].Level != saysNotChecked ||
		r["families"].Level != saysFailed {
		t.Errorf("without a schema: %+v", r)
	}
}

func TestCheckLocks(t *testing.T) {
	t.Parallel()
	cl := newCluster(t, damagedSchema())
	cl.crash(beforeCommit, time.Hour, "$1", accounts("Tom"))
	if r := cl.checked(cli.ExitOK, "--only", "locks"); r["locks"].Level != saysOK {
		t.Errorf("a live lock: %+v", r)
	}
	cl.die(beforeCommit, "$4", accounts("Ann"), accounts("Eve"))
	stranded := func() string { return cl.checked(cli.ExitOK, "--only", "locks")["locks"].Findings[0].Saw }
	for deadline := time.Now().Add(clusterLimit); !strings.HasPrefix(stranded(), "2 locks"); {
		if time.Now().After(deadline) { // six times a TTL of 100 ms
			t.Fatal("dead locks never count as stranded")
		}
	}
	cl.checked(cli.ExitFindings, "--only", "locks", "--strict")
	if r := cl.checked(cli.ExitOK, "--only", "locks", "--strict", "--stranded-ttls", "1000000"); r["locks"].Level != saysOK {
		t.Errorf("%+v", r)
	}
	cl.plant("accounts", "Z z", "lock", "balance", 0, "rubbish")
	if r := cl.checked(cli.ExitOK, "--only", "locks"); r["locks"].Level != saysWarning {
		t.Errorf("a lock that no entry names: %+v", r)
	}
	if r := cl.checked(cli.ExitFindings, "--only", "locks", "--scan"); r["locks"].Level != saysFailed || r["locks"].Findings[0].Remedy != `percolator row accounts '"Z z"'` {
		t.Errorf("%+v", r)
	}
}

// TestCheckRunning: the parts that come from the store, where something is wrong.
func TestCheckRunning(t *testing.T) {
	t.Parallel()
	cl := newCluster(t, damagedSchema())
	served := tso.At(time.Now().Add(time.Hour))
	cl.plant("percolator_meta", "meta", "meta", "now", 1000, string(bigEndian(uint64(served))))
	cl.plant("percolator_meta", "meta", "meta", "safepoint", 1000, string(bigEndian(uint64(tso.At(time.Now().Add(-3*time.Hour))))))
	r := cl.checked(cli.ExitFindings, "--only", "oracle,collection,workers,observers")
	for name, want := range map[string]string{"oracle": saysFailed, "collection": saysWarning, "workers": saysOK, "observers": saysWarning} {
		if r[name].Level != want {
			t.Errorf("%s: %+v, want %q", name, r[name], want)
		}
	}
	if r := cl.checked(cli.ExitOK, "--only", "collection", "--retention", "3h", "--strict"); r["collection"].Level != saysOK {
		t.Errorf("%+v", r)
	}
	ctx, cancel := context.WithTimeout(context.Background(), clusterLimit)
	defer cancel()
	if _, err := (membership.Directory{Engine: cl.client.Engine()}).Register(ctx, model.WorkerInfo{Name: "w", Version: "v1", Takes: map[string][][]byte{"accounts": {[]byte("balance")}}}, membership.Workers{}); err != nil {
		t.Fatal(err)
	}
	if r := cl.checked(cli.ExitOK, "--only", "observers,workers", "--strict"); r["observers"].Level != saysOK {
		t.Errorf("%+v", r)
	}
}

func bigEndian(n uint64) []byte {
	b := make([]byte, 8)
	for i := range b {
		b[i] = byte(n >> (8 * (7 - i)))
	}
	return b
}

func TestCheckSession(t *testing.T) {
	t.Parallel()
	cl := newCluster(t, damagedSchema())
	s := session{c: cl}
	s.run(cli.ExitOK, "check")
	s.run(cli.ExitFindings, "check", "--strict", "--skip", "connection,oracle")
	cl.administer(func(ctx context.Context, admin *bigtable.AdminClient) error {
		return admin.DeleteColumnFamily(ctx, "accounts", "notify")
	})
	s.run(cli.ExitFindings, "check", "--only", "families")
	s.run(cli.ExitFindings, "check", "--only", "families", "-o", "json")
	s.run(cli.ExitUsage, "check", "--only", "nothing")
	s.run(cli.ExitUsage, "check", "--only", "locks", "--skip", "locks")
	s.run(cli.ExitUsage, "check", "--stranded-ttls", "0")
	s.run(cli.ExitUsage, "check", "--retention", "1s")
	s.run(cli.ExitUsage, "check", "accounts")
	s.compare("check.txt")
}

// TestCheckWithoutOracle: what does not need the oracle is checked all the same.
func TestCheckWithoutOracle(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testCheckWithoutOracle)
}

func testCheckWithoutOracle(t *testing.T) {
	cl := newCluster(t, damagedSchema())
	r := cl.checked(cli.ExitFindings, "--tso", "127.0.0.1:1", "--timeout", "2s")
	for name, want := range map[string]string{"connection": saysFailed, "schema": saysOK, "families": saysOK, "oracle": saysNotChecked, "locks": saysNotChecked, "workers": saysNotChecked} {
		if r[name].Level != want {
			t.Errorf("%s: %+v, want %q", name, r[name], want)
		}
	}
}
