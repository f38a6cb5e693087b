package look

import (
	"github.com/gopercolator/percolator/percolator/model"

	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gopercolator/percolator/observers/exportqueue"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
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
		b.HeldBy = &model.Hold{ID: "backup", Timestamp: b.Safepoint + 1}
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
	worker := func(version, columns, observer string, takes map[string][][]byte) model.WorkerInfo {
		return model.WorkerInfo{Version: version, Columns: columns, Observers: []string{observer}, Takes: takes}
	}
	schema := &percolator.Schema{Tables: []percolator.Table{{Name: "docs", Observed: []string{"in"}, Weak: []string{"poke"}}}}
	for name, c := range map[string]struct {
		live               []model.WorkerInfo
		workers, observers []checkLevel
	}{
		"agree":     {[]model.WorkerInfo{worker("v1", "a", "o", takes("in", "poke")), worker("v1", "a", "o", takes("in", "poke"))}, []checkLevel{levelOK}, []checkLevel{levelOK}},
		"divided":   {[]model.WorkerInfo{worker("v1", "a", "o", takes("in")), worker("v1", "b", "p", takes("poke"))}, []checkLevel{levelOK}, []checkLevel{levelOK}},
		"versions":  {[]model.WorkerInfo{worker("v1", "a", "o", takes("in", "poke")), worker("v2", "a", "o", takes("in"))}, []checkLevel{levelWarning}, []checkLevel{levelOK}},
		"observers": {[]model.WorkerInfo{worker("v1", "a", "o", takes("in")), worker("v1", "a", "p", takes("in"))}, []checkLevel{levelWarning}, []checkLevel{levelWarning}},
		"none":      {nil, []checkLevel{levelOK}, []checkLevel{levelWarning}},
		"silent":    {[]model.WorkerInfo{worker("v1", "a", "o", nil)}, []checkLevel{levelOK}, []checkLevel{levelNotChecked}},
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

func TestCheckAsTable(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	out := checkJSON{Checks: []checkedIt{{Name: "a", Level: levelFailed, Findings: []finding{found(levelFailed, "percolator init", "no table"), {Level: levelOK, Saw: "fine"}}}}}
	out.print(&text)
	if want := "CHECK  LEVEL   SAW\na      failed  no table\n               → percolator init\n       ok      fine\n"; text.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", text.String(), want)
	}
}

// A check says so when it has not counted all letters.
func TestCheckOfManyDeadLetters(t *testing.T) {
	t.Parallel()
	now := time.Now()
	got := judgeLetters([]exportqueue.DeadLetterCount{{Table: "dead", Queue: "mails", Letters: 1000, More: true, Oldest: tso.At(now.Add(-3 * time.Hour))}}, now)
	want := found(levelWarning, "percolator exports ls dead --queue mails", "entries of the queue mails that were refused for good: more than 1000, the oldest 3h0m ago")
	if len(got) != 1 || got[0] != want {
		t.Errorf("%+v", got)
	}
}

func TestJudgeJournal(t *testing.T) {
	t.Parallel()
	now := time.Now()
	at := func(d time.Duration) tso.Timestamp { return tso.At(now.Add(-d)) }
	for name, c := range map[string]struct {
		stream admin.JournalStream
		want   checkLevel
	}{
		"alive and behind":    {admin.JournalStream{SessionState: admin.SessionOpen, Oldest: at(time.Hour)}, levelOK},
		"dead and settled":    {admin.JournalStream{SessionState: admin.SessionEnded}, levelOK},
		"died just now":       {admin.JournalStream{SessionState: admin.SessionEnded, Oldest: at(time.Minute)}, levelOK},
		"dead and unfinished": {admin.JournalStream{SessionState: admin.SessionEnded, Oldest: at(time.Hour)}, levelWarning},
		"corrupt":             {admin.JournalStream{SessionState: admin.SessionOpen, Corrupt: "rubbish"}, levelFailed},
	} {
		got := levelOK
		for _, f := range judgeJournal([]admin.JournalStream{c.stream}, false, now) {
			got = worst(got, f.Level)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// A lock is stranded by the time at which it was placed: a transaction may be old when it commits.
func TestJudgeLocks(t *testing.T) {
	t.Parallel()
	now, ttl := tso.At(time.Now()), 10*time.Second
	lock := func(state admin.LockState, began, placed time.Duration) admin.LockInspection {
		l := model.Lock{Cell: percolator.Cell{Table: "t", Row: "r", Column: "c"}, StartTS: now.Add(-began), Placed: now.Add(-placed), TTL: ttl}
		return admin.LockInspection{Lock: l, State: state, Age: began, Expires: l.AliveUntil()}
	}
	for name, c := range map[string]struct {
		lock admin.LockInspection
		want checkLevel
	}{
		"alive":                          {lock(admin.LockStateAlive, 0, 0), levelOK},
		"of an old transaction":          {lock(admin.LockStateCommitted, time.Hour, 0), levelOK},
		"dead since a moment":            {lock(admin.LockStateDead, time.Hour, ttl+time.Second), levelOK},
		"as old as one may be":           {lock(admin.LockStateCommitted, 6*ttl, 6*ttl), levelOK},
		"too old":                        {lock(admin.LockStateCommitted, 6*ttl+time.Second, 6*ttl+time.Second), levelWarning},
		"too old, and alive":             {lock(admin.LockStateAlive, 6*ttl+time.Second, 6*ttl+time.Second), levelOK},
		"within a TTL ahead":             {lock(admin.LockStateAlive, 0, -ttl), levelOK},
		"from the future":                {lock(admin.LockStateAlive, 0, -ttl-time.Second), levelFailed},
		"from the future, and decided":   {lock(admin.LockStateCommitted, 0, -ttl-time.Second), levelOK},
		"that cannot be decoded, either": {admin.LockInspection{State: admin.LockStateUndecodable}, levelFailed},
	} {
		one := func(yield func(admin.LockInspection, error) bool) { yield(c.lock, nil) }
		if got := judgeLocks(one, 6); len(got) != 1 || got[0].Level != c.want {
			t.Errorf("a lock %s: %+v, want %s", name, got, c.want)
		}
	}
}
