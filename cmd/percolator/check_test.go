package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"github.com/google/go-cmp/cmp"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

func TestCheckOracle(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(d time.Duration) tso.Timestamp { return tso.At(now.Add(d)) }
	for name, c := range map[string]struct {
		first, second, served tso.Timestamp
		want                  checkLevel
		saw                   string
	}{
		"well":       {at(0), at(0) + 1, at(-time.Second), levelOK, "above"},
		"new":        {at(0), at(0) + 1, 0, levelOK, "above 0"},
		"repeats":    {at(0), at(0), 0, levelFailed, "and then"},
		"went back":  {at(-time.Hour), at(0), at(-time.Minute), levelFailed, "went back"},
		"as served":  {at(0), at(0) + 1, at(0), levelFailed, "went back"},
		"far ahead":  {at(time.Hour), at(time.Hour) + 1, 0, levelWarning, "1h0m ahead"},
		"far behind": {at(-time.Hour), at(-time.Hour) + 1, 0, levelWarning, "behind"},
	} {
		got := judgeOracle(c.first, c.second, c.served, now)
		if len(got) != 1 || got[0].Level != c.want || !strings.Contains(got[0].Saw, c.saw) || (got[0].Remedy == "") != (c.want == levelOK) {
			t.Errorf("%s: %+v, want %q, %q", name, got, c.want, c.saw)
		}
	}
}

func TestCheckCollection(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	now := tso.At(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	bounds := func(back time.Duration) admin.CollectionBounds {
		return admin.CollectionBounds{Now: now, Safepoint: now.Add(-back), Retention: hour}
	}
	held := func(back time.Duration) admin.CollectionBounds {
		b := bounds(back)
		b.HeldBy = &admin.Hold{ID: "backup", Timestamp: b.Safepoint + 1}
		return b
	}
	for name, c := range map[string]struct {
		bounds  admin.CollectionBounds
		corrupt int64
		want    []checkLevel
	}{
		"well":         {bounds(70 * time.Minute), 0, []checkLevel{levelOK}},
		"never":        {admin.CollectionBounds{Now: now, Retention: hour}, 0, []checkLevel{levelWarning}},
		"slow":         {bounds(3 * hour), 0, []checkLevel{levelWarning}},
		"stuck":        {bounds(11 * hour), 0, []checkLevel{levelFailed}},
		"held":         {held(3 * hour), 0, []checkLevel{levelOK}},
		"held forever": {held(30 * hour), 0, []checkLevel{levelWarning}},
		"corrupt":      {bounds(hour), 2, []checkLevel{levelWarning, levelOK}},
	} {
		var got []checkLevel
		for _, f := range judgeCollection(c.bounds, admin.Collection{Corrupt: c.corrupt}) {
			got = append(got, f.Level)
			if strings.Contains(name, "held") != strings.Contains(f.Saw, "backup") {
				t.Errorf("%s: %q", name, f.Saw)
			}
		}
		if !cmp.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestCheckWorkersAndObservers(t *testing.T) {
	t.Parallel()
	takes := func(columns ...string) map[string][][]byte {
		out := map[string][][]byte{}
		for _, c := range columns {
			out["docs"] = append(out["docs"], []byte(c))
		}
		return out
	}
	worker := func(version, columns, observer string, takes map[string][][]byte) admin.WorkerInfo {
		return admin.WorkerInfo{Version: version, Columns: columns, Observers: []string{observer}, Takes: takes}
	}
	schema := &percolator.Schema{Tables: []percolator.Table{{Name: "docs", Observed: []string{"in"}, Weak: []string{"poke"}}}}
	for name, c := range map[string]struct {
		live               []admin.WorkerInfo
		workers, observers []checkLevel
	}{
		"agree":     {[]admin.WorkerInfo{worker("v1", "a", "o", takes("in", "poke")), worker("v1", "a", "o", takes("in", "poke"))}, []checkLevel{levelOK}, []checkLevel{levelOK}},
		"divided":   {[]admin.WorkerInfo{worker("v1", "a", "o", takes("in")), worker("v1", "b", "p", takes("poke"))}, []checkLevel{levelOK}, []checkLevel{levelOK}},
		"versions":  {[]admin.WorkerInfo{worker("v1", "a", "o", takes("in", "poke")), worker("v2", "a", "o", takes("in"))}, []checkLevel{levelWarning}, []checkLevel{levelOK}},
		"observers": {[]admin.WorkerInfo{worker("v1", "a", "o", takes("in")), worker("v1", "a", "p", takes("in"))}, []checkLevel{levelWarning}, []checkLevel{levelWarning}},
		"none":      {nil, []checkLevel{levelOK}, []checkLevel{levelWarning}},
		"silent":    {[]admin.WorkerInfo{worker("v1", "a", "o", nil)}, []checkLevel{levelOK}, []checkLevel{levelNotChecked}},
	} {
		for what, got := range map[string][]finding{"workers": judgeWorkers(c.live), "observers": judgeObservers(schema, c.live)} {
			want := map[string][]checkLevel{"workers": c.workers, "observers": c.observers}[what]
			var levels []checkLevel
			for _, f := range got {
				levels = append(levels, f.Level)
			}
			if !cmp.Equal(levels, want) {
				t.Errorf("%s, %s: %+v, want %q", name, what, got, want)
			}
		}
	}
}

// checked runs "check" and returns the results by name.
func (c *cluster) checked(code int, args ...string) map[string]checkedIt {
	c.t.Helper()
	var out checkJSON
	if err := json.Unmarshal([]byte(c.must(code, append([]string{"check", "-o", "json"}, args...)...).out), &out); err != nil {
		c.t.Fatal(err)
	}
	results := map[string]checkedIt{}
	levels := []checkLevel{}
	for _, r := range out.Checks {
		results[r.Name] = r
		levels = append(levels, r.Level)
		for _, f := range r.Findings {
			remedyExists(c.t, f.Remedy)
		}
	}
	if out.Worst != worst(levels...) {
		c.t.Errorf("worst %q of %q", out.Worst, levels)
	}
	return results
}

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
	if r := cl.checked(exitOK, "--only", "families,gc-policies,indexes,schema,app-profile"); len(r) != 5 || r["families"].Level != levelOK ||
		r["gc-policies"].Level != levelOK || r["indexes"].Level != levelOK || r["schema"].Level != levelOK || r["app-profile"].Level != levelNotChecked {
		t.Errorf("an instance in order: %+v", r)
	}
	cl.administer(func(ctx context.Context, admin *bigtable.AdminClient) error {
		for _, err := range []error{
			admin.DeleteColumnFamily(ctx, "accounts", "notify"), admin.DeleteTable(ctx, "people.mail"),
			admin.SetGCPolicy(ctx, "accounts", "write", bigtable.MaxAgePolicy(time.Hour)),
			admin.SetGCPolicy(ctx, "people", "data", bigtable.MaxVersionsPolicy(1)),
			admin.SetGCPolicy(ctx, "percolator_meta", "meta", bigtable.MaxVersionsPolicy(1)),
			admin.SetGCPolicy(ctx, "percolator_meta", "oracle", bigtable.MaxAgePolicy(time.Hour)),
		} {
			if err != nil {
				return err
			}
		}
		return nil
	})
	r := cl.checked(exitFindings, "--only", "families,gc-policies")
	if got := r["families"]; got.Level != levelFailed || len(got.Findings) != 2 || !strings.Contains(got.Findings[0].Saw, "accounts lacks the column family notify") ||
		!strings.Contains(got.Findings[1].Saw, "people.mail does not exist") {
		t.Errorf("families: %+v", got)
	}
	var policies []string
	for _, f := range r["gc-policies"].Findings {
		policies = append(policies, string(f.Level)+" "+strings.Join(strings.Fields(f.Remedy)[6:9], " "))
	}
	if want := []string{"warning percolator_meta meta never", "failed percolator_meta oracle never", "failed accounts write never", "failed people data never"}; !cmp.Equal(policies, want) {
		t.Errorf("policies %q, want %q", policies, want)
	}

	// The remedy helps.
	file := filepath.Join(t.TempDir(), "schema.yaml")
	if err := os.WriteFile(file, []byte(cl.must(exitOK, "schema", "show").out), 0o600); err != nil {
		t.Fatal(err)
	}
	cl.must(exitOK, "schema", "apply", file, "--yes")
	if r := cl.checked(exitOK, "--only", "families,schema", "--schema", file); r["families"].Level != levelOK || r["schema"].Level != levelOK {
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
	if err := os.WriteFile(file, []byte(cl.must(exitOK, "schema", "show").out), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := percolator.CreateSchema(ctx, cl.project, cl.instance, next, cl.options...); err != nil {
		t.Fatal(err)
	}
	r := cl.checked(exitFindings, "--only", "schema,indexes", "--schema", file)
	if got := r["schema"]; got.Level != levelFailed || !strings.Contains(got.Findings[0].Saw, "index removed accounts owner") && !strings.Contains(got.Findings[0].Saw, "owner") {
		t.Errorf("schema: %+v", got)
	}
	if got := r["indexes"]; got.Level != levelWarning || got.Findings[0].Remedy != "percolator schema backfill accounts owner" {
		t.Errorf("indexes: %+v", got)
	}
	cl.must(exitUsage, "check", "--schema", file+".missing")

	bare := newCluster(t, nil)
	if r := bare.checked(exitFindings); r["connection"].Level != levelFailed || r["schema"].Level != levelFailed || r["locks"].Level != levelNotChecked ||
		r["families"].Level != levelFailed {
		t.Errorf("without a schema: %+v", r)
	}
}

func TestCheckLocks(t *testing.T) {
	t.Parallel()
	cl := newCluster(t, damagedSchema())
	cl.crash(beforeCommit, time.Hour, "$1", accounts("Tom"))
	if r := cl.checked(exitOK, "--only", "locks"); r["locks"].Level != levelOK {
		t.Errorf("a live lock: %+v", r)
	}
	cl.die(beforeCommit, "$4", accounts("Ann"), accounts("Eve"))
	for deadline := time.Now().Add(clusterLimit); cl.checked(exitOK, "--only", "locks")["locks"].Level == levelOK; {
		if time.Now().After(deadline) { // six times a TTL of 100 ms
			t.Fatal("dead locks never count as stranded")
		}
	}
	if r := cl.checked(exitFindings, "--only", "locks", "--strict"); !strings.HasPrefix(r["locks"].Findings[0].Saw, "2 locks") {
		t.Errorf("%+v", r)
	}
	if r := cl.checked(exitOK, "--only", "locks", "--strict", "--stranded-ttls", "1000000"); r["locks"].Level != levelOK {
		t.Errorf("%+v", r)
	}
	cl.plant("accounts", "Z z", "lock", "balance", 0, "rubbish")
	if r := cl.checked(exitOK, "--only", "locks"); r["locks"].Level != levelWarning {
		t.Errorf("a lock that no entry names: %+v", r)
	}
	if r := cl.checked(exitFindings, "--only", "locks", "--scan"); r["locks"].Level != levelFailed || r["locks"].Findings[0].Remedy != `percolator row accounts '"Z z"'` {
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
	r := cl.checked(exitFindings, "--only", "oracle,collection,workers,observers")
	for name, want := range map[string]checkLevel{"oracle": levelFailed, "collection": levelWarning, "workers": levelOK, "observers": levelWarning} {
		if r[name].Level != want {
			t.Errorf("%s: %+v, want %q", name, r[name], want)
		}
	}
	if r := cl.checked(exitOK, "--only", "collection", "--retention", "3h", "--strict"); r["collection"].Level != levelOK {
		t.Errorf("%+v", r)
	}
	ctx, cancel := context.WithTimeout(context.Background(), clusterLimit)
	defer cancel()
	if _, err := admin.New(cl.client).Register(ctx, admin.WorkerInfo{Name: "w", Version: "v1", Takes: map[string][][]byte{"accounts": {[]byte("balance")}}}, admin.Workers{}); err != nil {
		t.Fatal(err)
	}
	if r := cl.checked(exitOK, "--only", "observers,workers", "--strict"); r["observers"].Level != levelOK {
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
	s.run(exitOK, "check")
	s.run(exitFindings, "check", "--strict", "--skip", "connection,oracle")
	cl.administer(func(ctx context.Context, admin *bigtable.AdminClient) error {
		return admin.DeleteColumnFamily(ctx, "accounts", "notify")
	})
	s.run(exitFindings, "check", "--only", "families")
	s.run(exitFindings, "check", "--only", "families", "-o", "json")
	s.run(exitUsage, "check", "--only", "nothing")
	s.run(exitUsage, "check", "--only", "locks", "--skip", "locks")
	s.run(exitUsage, "check", "--stranded-ttls", "0")
	s.run(exitUsage, "check", "--retention", "1s")
	s.run(exitUsage, "check", "accounts")
	s.compare("check.txt")
}

// TestCheckWithoutOracle: what does not need the oracle is checked all the same.
func TestCheckWithoutOracle(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testCheckWithoutOracle)
}

func testCheckWithoutOracle(t *testing.T) {
	cl := newCluster(t, damagedSchema())
	r := cl.checked(exitFindings, "--tso", "127.0.0.1:1", "--timeout", "2s")
	for name, want := range map[string]checkLevel{"connection": levelFailed, "schema": levelOK, "families": levelOK, "oracle": levelNotChecked, "locks": levelNotChecked, "workers": levelNotChecked} {
		if r[name].Level != want {
			t.Errorf("%s: %+v, want %q", name, r[name], want)
		}
	}
}

func TestCheckAsTable(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	out := checkJSON{Checks: []checkedIt{{Name: "a", Level: levelFailed, Findings: []finding{found(levelFailed, "percolator init", "no table"), {Level: levelOK, Saw: "fine"}}}}}
	out.print(&text)
	if want := "CHECK  LEVEL   SAW\na      failed  no table\n               → percolator init\n       ok      fine\n"; text.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", text.String(), want)
	}
}
