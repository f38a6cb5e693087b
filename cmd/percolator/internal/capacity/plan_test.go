package capacity_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/cmd/percolator/internal/capacity"
	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

func inputs(t *testing.T) capacity.Inputs {
	t.Helper()
	in, err := capacity.DefaultInputs()
	fixture.Must(t, err)
	return in
}

func plan(t *testing.T, in capacity.Inputs, configure func(w *capacity.Workload)) *capacity.Plan {
	t.Helper()
	w := capacity.DefaultWorkload()
	w.Rows, w.ScanInterval.Duration, w.BackupInterval.Duration = 1, 0, 0
	configure(&w)
	p, err := capacity.NewPlan(w, in)
	fixture.Must(t, err)
	return p
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-3*math.Abs(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// Each number says where it comes from, and when somebody looked or that nobody did.
func TestInputsNameSourceAndDate(t *testing.T) {
	t.Parallel()
	for name, i := range inputs(t) {
		_, err := time.Parse(time.DateOnly, i.Read)
		if i.Unit == "" || i.Source == "" || i.Value != nil && err != nil && !strings.Contains(i.Source, "from memory") {
			t.Errorf("%s: %+v", name, i)
		}
	}
}

// What the code fixes as well is the same here.
func TestInputsOfTheCode(t *testing.T) {
	t.Parallel()
	in := inputs(t)
	near(t, "drain", *in["drain"].Value, catalog.DrainTime(model.DefaultTiming).Seconds())
	large := plan(t, in, func(w *capacity.Workload) { w.Changes, w.RowsPerTransaction, w.RowBytes = 1e6, 1e6, 10 })
	near(t, "rows of the journal for a million keys of 40 bytes", large.Requests.JournalRows, (56+1e6*43)/journal.MaxBatchBytes)
	near(t, "bytes of a transaction", *in["txnBytes"].Value, percolator.MaxTxnBytes)
	near(t, "ticks of the oracle", *in["oracleTicks"].Value, float64(tso.At(time.Unix(2e9+1, 0))-tso.At(time.Unix(2e9, 0))))
}

// Which of the three decides about nodes, and what follows for the money.
func TestNodesFollowTheLargestNeed(t *testing.T) {
	t.Parallel()
	in := inputs(t)
	reads := plan(t, in, func(w *capacity.Workload) { w.Reads = 102_000 }) // 6 nodes' at 60 %
	near(t, "nodes for reads", reads.Nodes.ForRequests, 10)
	if reads.Nodes.DecidedBy != "requests" || reads.Nodes.Needed != 11 { // the collector's share is the eleventh
		t.Errorf("%+v", reads.Nodes)
	}
	near(t, "money for nodes", *reads.Money.Nodes, 11*0.65*730)

	stores := plan(t, in, func(w *capacity.Workload) {
		w.Rows, w.RowBytes, w.Retention.Duration, w.CollectorRows = 1e9, 27382, 7*24*time.Hour, 1e9
	})
	near(t, "stored bytes", stores.Storage.All, 27.487e12) // 9 of a record, twice 48 of keys and timestamps
	if stores.Nodes.DecidedBy != "storage" || stores.Nodes.Needed != 10 {
		t.Errorf("%+v", stores.Nodes)
	}
	near(t, "money for storage", *stores.Money.Storage, 27.487e12/(1<<30)*0.17)

	scans := plan(t, in, func(w *capacity.Workload) { w.DisableJournal, w.Rows, w.ScanInterval.Duration = true, 1e9, time.Minute })
	near(t, "bytes of a search", scans.Passes.Scanners, 1105e9/60)
	if scans.Nodes.DecidedBy != "passes" {
		t.Errorf("%+v", scans.Nodes)
	}
	if n := scans.Nodes; n.Needed < n.ForPasses || n.Needed > n.ForPasses+n.ForRequests+2 {
		t.Errorf("more than is needed, or less: %+v", n)
	}
}

// Old versions are those of the retention, the cycle and the pause before it; what is deleted stays
// for a week.
func TestStorageOfVersions(t *testing.T) {
	t.Parallel()
	workload := func(w *capacity.Workload) {
		w.Rows, w.Changes, w.RowBytes, w.CollectorRows = 3.6e6, 1000, 895, 1000
	}
	p := plan(t, inputs(t), func(w *capacity.Workload) { workload(w); w.DisableJournal = true })
	near(t, "cycle", p.Passes.CycleTakes, 80+3600+(p.Storage.Live+p.Storage.DeletedAtMost+3600e6)/(220e6*p.Nodes.Needed))
	near(t, "kept", p.Passes.VersionsAreKept, 3600+300+p.Passes.CycleTakes)
	near(t, "old versions", p.Storage.OldVersions, 1000*1000*p.Passes.VersionsAreKept)
	near(t, "deleted", p.Storage.DeletedAtMost, 1000*(1000+48+40+48+3*56)*7*86400) // values, locks, and what deletes them: one lock and two ranges

	p = plan(t, inputs(t), func(w *capacity.Workload) { workload(w); w.CollectorRows = 10_000 })
	near(t, "cycle by the journal", p.Passes.CycleTakes, (80+300)/(1-1020.0/10_000)-300) // of all time a tenth is reading
	near(t, "kept by the journal", p.Passes.VersionsAreKept, 3600+300+p.Passes.CycleTakes)
	const entry = 80 + 16 + 40 + 43 // around a row of the journal; of the entry: head, primary, row
	near(t, "journal", p.Storage.Journal, 1000*entry*p.Passes.VersionsAreKept)
	near(t, "deleted by the journal", p.Storage.DeletedAtMost, 1000*(1000+48+40+48+3*56+entry+80)*7*86400)
}

// The rows of the journal are written twice: appended, and deleted by the collector.
func TestJournalRowsAreDeleted(t *testing.T) {
	t.Parallel()
	in := inputs(t)
	changes := func(w *capacity.Workload) { w.Rows, w.Changes, w.Blind, w.ReadsPerChange = 1e9, 10_000, true, 0 }
	p := plan(t, in, changes)
	near(t, "deleted", p.Passes.JournalErased, p.Requests.JournalRows)
	without := plan(t, in, func(w *capacity.Workload) { changes(w); w.DisableJournal = true })
	near(t, "deleted without a journal", without.Passes.JournalErased+1, 1)
	more := p.Nodes.ForRequests - without.Nodes.ForRequests - p.Passes.RowsByJournal/17_000/0.6 - (p.Passes.RowsCollected-without.Passes.RowsCollected)/14_000/0.6
	near(t, "nodes for writes of the journal", more, 2*10_000/14_000.0/0.6)
}

func TestLimitThatBindsFirstIsNamed(t *testing.T) {
	t.Parallel()
	in := inputs(t)
	limit := func(p *capacity.Plan, name string) capacity.Limit {
		t.Helper()
		for _, l := range p.Limits.All {
			if l.Name == name {
				return l
			}
		}
		t.Fatalf("no limit %q: %+v", name, p.Limits)
		return capacity.Limit{}
	}
	p := plan(t, in, func(w *capacity.Workload) { w.Changes = 1e6 })
	oracle := limit(p, "oracle's speed")
	near(t, "oracle", oracle.Used, 2e6/4029098)
	near(t, "oracle full at", oracle.Full, 4029098/2)

	p = plan(t, in, func(w *capacity.Workload) { w.DisableJournal, w.Rows = true, 1e8 })
	if p.Limits.BindsFirst != "collector's pace" {
		t.Errorf("%+v", p.Limits)
	}
	near(t, "collector's speed", limit(p, "collector's speed").Used, 1e8/(3600-300-80)/24546)
	// With the pace that the remedy names the collector is in time, but for reading.
	p = plan(t, in, func(w *capacity.Workload) { w.DisableJournal, w.Rows, w.CollectorRows = true, 1e8, 31056 })
	near(t, "collector's pace", limit(p, "collector's pace").Used, 1+p.Storage.All/(220e6*p.Nodes.Needed)/7200)

	// By the journal the rows that change count, and all collectors share them.
	const reading = 1 - (80+300)/3600.0 // of the time
	p = plan(t, in, func(w *capacity.Workload) { w.Rows, w.Changes, w.Collectors = 1e8, 60_000, 4 })
	near(t, "pace by the journal", limit(p, "collector's pace").Used, 60_000*1.02/4/reading/5000)
	near(t, "speed by the journal", limit(p, "collector's speed").Used, 60_000*1.02/4/reading/24546)
	near(t, "kept where the collector is too slow", p.Passes.VersionsAreKept, 7200)
	p = plan(t, in, func(w *capacity.Workload) { w.Rows, w.Changes, w.Collectors = 1e8, 60_000, 1000 })
	near(t, "pace of more collectors than shares", limit(p, "collector's pace").Used, 60_000*1.02/256/reading/5000)

	fixture.Must(t, in.Set("nodeQuota", "2"))
	p = plan(t, in, func(w *capacity.Workload) { w.Reads = 102_000 })
	near(t, "quota", limit(p, "quota of nodes").Used, 11.0/2)
}

// A price that is unknown makes its cost unknown, unless nothing is bought; a speed cannot be.
func TestUnknownInputs(t *testing.T) {
	t.Parallel()
	in := inputs(t)
	fixture.Must(t, in.Replace([]byte("spannerPrice: {unit: USD}\nobjectPrice: {value: 0.02}")))
	p := plan(t, in, func(w *capacity.Workload) { w.BackupInterval.Duration = time.Hour })
	if m := p.Money; m.OracleRecord != nil || m.PercolatorBackup == nil {
		t.Errorf("%+v", m)
	}
	near(t, "what is known", p.Money.All, *p.Money.Nodes+*p.Money.Storage+*p.Money.TableBackups+*p.Money.PercolatorBackup)
	p = plan(t, in, func(w *capacity.Workload) { w.OracleRecord = "bigtable" })
	if m := p.Money.OracleRecord; m == nil || *m != 0 {
		t.Errorf("%+v", p.Money)
	}
	fixture.Must(t, in.Replace([]byte("readRows: {unit: rows}")))
	if _, err := capacity.NewPlan(p.Workload, in); err == nil || !strings.Contains(err.Error(), "readRows") {
		t.Error(err)
	}
	for _, text := range []string{"speed: {value: 1}", "readRows: {value: -1}", "readRows: {worth: 1}", "readRows: 3"} {
		if err := in.Replace([]byte(text)); err == nil {
			t.Errorf("%s was taken", text)
		}
	}
}

// With a journal nothing passes over tables but sweeps and backups, and without one no sweep does.
func TestOnlySweepsAndBackupsPassOverTables(t *testing.T) {
	t.Parallel()
	in := inputs(t)
	workload := func(w *capacity.Workload) {
		w.Rows, w.Changes, w.Observers, w.ObserverWrites = 1e6, 10, 2, 3
		w.ScanInterval.Duration, w.SweepInterval.Duration = time.Hour, 24*time.Hour
	}
	p := plan(t, in, workload)
	near(t, "sweeps", p.Passes.Sweeps, p.Storage.All/86400)
	near(t, "rows by the journal", p.Passes.RowsByJournal, 0.02*(10+10*2*(1+3))+10+10*2+0.1*10*2*3)
	if p.Passes.Collector != 0 || p.Passes.Scanners != 0 || p.Requests.JournalRows != 10+20 {
		t.Errorf("%+v, %+v", p.Passes, p.Requests)
	}
	p = plan(t, in, func(w *capacity.Workload) { workload(w); w.JournalBatch = 4 })
	near(t, "rows of the journal", p.Requests.JournalRows, 30.0/4)
	p = plan(t, in, func(w *capacity.Workload) { workload(w); w.DisableJournal = true })
	near(t, "scanners", p.Passes.Scanners, p.Storage.All/3600)
	near(t, "collector", p.Passes.Collector, p.Storage.All/p.Passes.CollectorEvery)
	if p.Passes.Sweeps != 0 || p.Passes.RowsByJournal != 0 || p.Requests.JournalRows != 0 || p.Storage.Journal != 0 {
		t.Errorf("%+v, %+v", p.Passes, p.Requests)
	}
}

// What is stored for rows and for locks is what the layout writes.
func TestStoredBytes(t *testing.T) {
	t.Parallel()
	key := strings.Repeat("k", 40)
	lock := layout.LockRecord{Primary: model.Cell{Table: "8 bytes.", Row: key[:30], Column: key[30:]}, TTL: 10 * time.Second, Session: strings.Repeat("s", 22)}
	if got, want := float64(len(lock.Encode())-len(key)), *inputs(t)["lockBytes"].Value; math.Abs(got-want) > 0.1*want {
		t.Errorf("a lock has %v bytes beside the key, the model says %v", got, want)
	}

	const rows = 50
	env, ctx := fixture.NewEnv(t), fixture.Context(t)
	for i := range rows {
		tx := fixture.MustBegin(t, ctx, env.Client)
		for _, column := range []string{"0123456789", "abcdefghij"} {
			fixture.Must(t, tx.Set(percolator.Cell{Table: "t", Row: key[i%10:][:30] + names("", rows)[i], Column: column}, make([]byte, 100)))
		}
		fixture.MustCommit(t, ctx, tx)
	}
	fixture.Must(t, env.Client.Flush(ctx))
	stored := 0
	fixture.Must(t, env.Store().Open("t").ReadRows(ctx, bigtable.InfiniteRange(""), func(r bigtable.Row) bool {
		for family, cells := range r {
			for _, c := range cells {
				stored += len(c.Row) + len(c.Column) - len(family+":") + 8 + len(c.Value)
			}
		}
		return true
	}))
	p := plan(t, inputs(t), func(w *capacity.Workload) { w.Rows, w.RowBytes, w.Columns, w.KeyBytes = rows, 200, 2, 42 })
	t.Logf("model %.0f bytes, emulator %d", p.Storage.Live, stored)
	if off := float64(stored) - p.Storage.Live; math.Abs(off) > 0.1*p.Storage.Live {
		t.Errorf("the model says %v bytes, the emulator has %v", p.Storage.Live, stored)
	}
}

func TestWorkloadsAreParsedAndChecked(t *testing.T) {
	t.Parallel()
	w := capacity.DefaultWorkload()
	fixture.Must(t, w.Parse([]byte("rows: 5e6\nretention: 2h\nblind: true\nreadsPerChange: 0")))
	if w.Rows != 5e6 || w.Retention.Duration != 2*time.Hour || w.Batch != 1 || !w.Blind {
		t.Errorf("%+v", w)
	}
	if three := w.Times(3); three.Rows != 15e6 || three.RowBytes != w.RowBytes {
		t.Errorf("%+v", three)
	}
	for text, want := range map[string]string{
		"rows: 0": "rows", "changes: -1": "changes", "readsPerChange: 1": "blind", "oracleRecord: paper": "oracleRecord",
		"retention: 59s": "retention", "rowBytes: 537e6": "transaction", "reads: .inf": "inf", "speed: 3": "speed",
		"rows: 1e300": "no number of nodes", "scanInterval: 3": "scanInterval",
	} {
		bad := w
		err := bad.Parse([]byte(text))
		if err == nil {
			_, err = capacity.NewPlan(bad, inputs(t))
		}
		if err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(want)) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestSizeOfARow: what observers write counts, as do names, timestamps and records.
func TestSizeOfARow(t *testing.T) {
	t.Parallel()
	share := func(writes float64) float64 {
		p := plan(t, inputs(t), func(w *capacity.Workload) {
			w.Rows, w.Changes, w.Observers, w.ObserverWrites = 1e6, 100, 1, writes
		})
		for _, l := range p.Limits.All {
			if l.Name == "size of a row" {
				near(t, "versions of a row", l.Used, (p.Storage.Live+p.Storage.OldVersions)/1e6/256e6)
				return l.Used
			}
		}
		t.Fatal("no such limit")
		return 0
	}
	if one, ten := share(1), share(10); ten < 2.5*one {
		t.Errorf("with one row written by each run %v, with ten %v", one, ten)
	}
}

// TestNoShareIsAboveOne: none is above one.
func TestNoShareIsAboveOne(t *testing.T) {
	t.Parallel()
	in := inputs(t)
	for _, name := range []string{"cpuShare", "storageShare"} {
		if err := in.Set(name, "60"); err == nil || in.Replace([]byte(name+": {value: 60}")) == nil {
			t.Errorf("%s of 60 was taken", name)
		}
		fixture.Must(t, in.Set(name, "1"))
	}
}

// Runs that commit together share commit points, timestamps and entries of the journal, as
// TestRequestsOfGroups in package observers counts them.
func TestRunsThatCommitTogether(t *testing.T) {
	t.Parallel()
	w := capacity.DefaultWorkload()
	w.Changes, w.Observers, w.ObserverWrites = 100, 1, 1
	alone := w.Requests()
	w.RunsTogether = 100. / 7
	together := w.Requests()
	conditional, timestamps := alone.CheckAndMutateRow-together.CheckAndMutateRow, alone.Timestamps-together.Timestamps
	if math.Abs(conditional-(300-207)) > 1e-9 || math.Abs(timestamps-(200-14)) > 1e-9 {
		t.Errorf("%v conditional mutations and %v timestamps are saved", conditional, timestamps)
	}
}
