package health

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

func TestTimestamps(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(d time.Duration) tso.Timestamp { return tso.At(now.Add(d)) }
	for name, c := range map[string]struct {
		first, second, served tso.Timestamp
		want                  Level
		saw                   string
	}{
		"well":       {at(0), at(0) + 1, at(-time.Second), OK, "above"},
		"new":        {at(0), at(0) + 1, 0, OK, "above 0"},
		"repeats":    {at(0), at(0), 0, Failed, "and then"},
		"went back":  {at(-time.Hour), at(0), at(-time.Minute), Failed, "went back"},
		"as served":  {at(0), at(0) + 1, at(0), Failed, "went back"},
		"far ahead":  {at(time.Hour), at(time.Hour) + 1, 0, Warning, "1h0m ahead"},
		"far behind": {at(-time.Hour), at(-time.Hour) + 1, 0, Warning, "behind"},
	} {
		got := Timestamps(c.first, c.second, c.served, now)
		if len(got) != 1 || got[0].Level != c.want || !strings.Contains(got[0].Saw, c.saw) || (got[0].Remedy == "") != (c.want == OK) {
			t.Errorf("%s: %+v, want %q, %q", name, got, c.want, c.saw)
		}
	}
}

func TestCheckCollection(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	now := tso.At(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	bounds := func(back time.Duration) Collection {
		return Collection{Now: now, Safepoint: now.Add(-back), Retention: hour}
	}
	held := func(back time.Duration) Collection {
		b := bounds(back)
		b.HeldBy = &model.Hold{ID: "backup", Timestamp: b.Safepoint + 1}
		return b
	}
	for name, c := range map[string]struct {
		bounds  Collection
		corrupt int64
		want    []Level
	}{
		"well":         {bounds(70 * time.Minute), 0, []Level{OK}},
		"never":        {Collection{Now: now, Retention: hour}, 0, []Level{Warning}},
		"slow":         {bounds(3 * hour), 0, []Level{Warning}},
		"stuck":        {bounds(11 * hour), 0, []Level{Failed}},
		"held":         {held(3 * hour), 0, []Level{OK}},
		"held forever": {held(30 * hour), 0, []Level{Warning}},
		"corrupt":      {bounds(hour), 2, []Level{Failed, OK}},
	} {
		var got []Level
		c.bounds.Corrupt = c.corrupt
		for _, f := range c.bounds.Findings() {
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

// Cells count once, whatever is parked for them, and the finding names the worst observer.
func TestParkedCells(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var p Parked
	if got := p.Findings(false, now); got != nil {
		t.Errorf("%+v, of none", got)
	}
	add := func(row, observer string, hours int) {
		p.Add(model.Cell{Table: "docs", Row: row, Column: "in"}, observer, now.Add(-time.Duration(hours)*time.Hour))
	}
	add("a", "o", 1)
	want := []Finding{{Level: Warning, Saw: "1 cell is parked, the first 1h0m ago: the observer o failed too often on docs/in", Remedy: "percolator notify ls docs",
		Advice: "Read the reason, remove the cause, retry.", Runbook: "alert-percolator-parked-rows"}}
	if got := p.Findings(false, now); !cmp.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	add("a", "p", 2)
	add("b", "p", 3)
	want[0].Saw = "at least 2 cells are parked, the first 3h0m ago: the observer p failed too often on docs/in (2), others too"
	if got := p.Findings(true, now); !cmp.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}

func TestOverdueRuns(t *testing.T) {
	t.Parallel()
	report := func(overdue int64, observers ...string) (r model.Report) {
		r.Worker.Overdue, r.Worker.Observers = overdue, map[string]model.ObserverReport{"fine": {Runs: 1}}
		for _, o := range observers {
			r.Worker.Observers[o] = model.ObserverReport{Overdue: 1}
		}
		return r
	}
	for want, reports := range map[string][]model.Report{
		"": {report(0)},
		"1 run has not returned after the timeout, of a":                   {report(0), report(1, "a")},
		"5 runs have not returned after the timeout, of \"b\\n\", a, c, …": {report(3, "c", "a", "b\n"), report(2, "d", "a")},
	} {
		got := ""
		for _, f := range Overdue(reports) {
			got += f.Saw
		}
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestOverloadedTables(t *testing.T) {
	t.Parallel()
	report := func(tables ...string) (r model.Report) {
		r.Stats.Overloaded = tables
		return r
	}
	for want, reports := range map[string][]model.Report{
		"": {report()},
		"Bigtable asks 1 client to slow down on t":           {report(), report("t")},
		"Bigtable asks 2 clients to slow down on a, b, c, …": {report("c", "a"), report("d", "b")},
	} {
		got := ""
		for _, f := range Overloaded(reports) {
			got += f.Saw
		}
		if got != want {
			t.Errorf("%q, want %q", got, want)
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
	worker := func(version, columns, observer string, takes map[string][][]byte) model.WorkerInfo {
		return model.WorkerInfo{Version: version, Columns: columns, Observers: []string{observer}, Takes: takes}
	}
	schema := &percolator.Schema{Tables: []percolator.Table{{Name: "docs", Observed: []string{"in"}, Weak: []string{"poke"}}}}
	for name, c := range map[string]struct {
		live               []model.WorkerInfo
		workers, observers []Level
	}{
		"agree":     {[]model.WorkerInfo{worker("v1", "a", "o", takes("in", "poke")), worker("v1", "a", "o", takes("in", "poke"))}, nil, nil},
		"divided":   {[]model.WorkerInfo{worker("v1", "a", "o", takes("in")), worker("v1", "b", "p", takes("poke"))}, nil, nil},
		"versions":  {[]model.WorkerInfo{worker("v1", "a", "o", takes("in", "poke")), worker("v2", "a", "o", takes("in"))}, []Level{Warning}, nil},
		"untold":    {[]model.WorkerInfo{worker("v0.0.0-2026-abc", "a", "o", takes("in", "poke")), worker("(devel)", "a", "o", takes("in"))}, nil, nil},
		"observers": {[]model.WorkerInfo{worker("v1", "a", "o", takes("in")), worker("v1", "a", "p", takes("in"))}, []Level{Warning}, []Level{Warning}},
		"none":      {nil, nil, []Level{Warning}},
		"silent":    {[]model.WorkerInfo{worker("v1", "a", "o", nil)}, nil, []Level{NotChecked}},
	} {
		for what, got := range map[string][]Finding{"workers": Agreement(c.live), "observers": Untaken(schema, c.live)} {
			want := map[string][]Level{"workers": c.workers, "observers": c.observers}[what]
			var levels []Level
			for _, f := range got {
				levels = append(levels, f.Level)
			}
			if !cmp.Equal(levels, want) {
				t.Errorf("%s, %s: %+v, want %q", name, what, got, want)
			}
		}
	}
}

// A queue of which nobody takes the columns is one finding, however many partitions it has.
func TestCheckNamesAQueueOnce(t *testing.T) {
	t.Parallel()
	queue := percolator.Table{Name: "exports"}
	for _, n := range "01234567" {
		queue.Weak = append(queue.Weak, "export-00"+string(n))
	}
	found := Untaken(&percolator.Schema{Tables: []percolator.Table{queue}}, nil)
	if len(found) != 1 || found[0].Saw != "no worker takes 8 columns of exports (export-000, export-001, export-002, …): notifications wait" {
		t.Errorf("%+v", found)
	}
	silent := Untaken(&percolator.Schema{Tables: []percolator.Table{queue}}, []model.WorkerInfo{{Name: "w"}})
	if len(silent) != 1 {
		t.Errorf("of a worker that does not say what it takes: %+v", silent)
	}
}

// A finding says so when it has not counted all letters.
func TestManyDeadLetters(t *testing.T) {
	t.Parallel()
	got := Letters("dead", "mails", 1000, true, 3*time.Hour)
	if got.Level != Warning || got.Remedy != "percolator exports ls dead --queue mails" || got.Saw != "the receiver of the queue mails has refused more than 1000 entries for good, the oldest 3h0m ago" {
		t.Errorf("%+v", got)
	}
}

func TestStreams(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stream Stream
		want   Level
	}{
		"alive and behind":     {Stream{Age: time.Hour}, OK},
		"alive and far behind": {Stream{Age: JournalAge + time.Second}, Warning},
		"dead and settled":     {Stream{Ended: true}, OK},
		"died just now":        {Stream{Ended: true, Age: time.Minute}, OK},
		"dead and unfinished":  {Stream{Ended: true, Age: time.Hour}, Warning},
		"corrupt":              {Stream{Corrupt: "rubbish"}, Failed},
	} {
		if got := worstOf(Streams([]Stream{c.stream})); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func worstOf(list []Finding) Level {
	got := OK
	for _, f := range list {
		got = Worst(got, f.Level)
	}
	return got
}

func TestOracle(t *testing.T) {
	t.Parallel()
	leads, stands := OracleServer{Leading: true, Ready: true}, OracleServer{Ready: true}
	silent := leads
	silent.Silence = StoreSilence + time.Second
	for name, c := range map[string]struct {
		servers []OracleServer
		want    Level
	}{
		"none is configured": {nil, OK},
		"well":               {[]OracleServer{leads, stands}, OK},
		"no leader":          {[]OracleServer{stands, stands}, Failed},
		"two leaders":        {[]OracleServer{leads, leads}, Failed},
		"one is gone":        {[]OracleServer{leads, {Failed: errors.New("refused")}}, Warning},
		"one is not ready":   {[]OracleServer{leads, {Reason: "starting"}}, Warning},
		"no store":           {[]OracleServer{silent, stands}, Warning},
		"never had a store":  {[]OracleServer{{Leading: true, Silence: -1}}, OK},
	} {
		if got := worstOf(Oracle(c.servers)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// What waits at its threshold is in order, and beyond it is not.
func TestWaiting(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		got  []Finding
		want string
	}{
		"in time":     {Backlog(BacklogAge), ""},
		"late":        {Backlog(BacklogAge + time.Second), "a notification has been waiting for 5m1s"},
		"all decoded": {Corrupt(0), ""},
		"corrupt":     {Corrupt(1), "1 notification or lock cannot be decoded"},
	} {
		saw := ""
		for _, f := range c.got {
			saw += f.Saw
		}
		if saw != c.want {
			t.Errorf("%s: %q, want %q", name, saw, c.want)
		}
	}
}
