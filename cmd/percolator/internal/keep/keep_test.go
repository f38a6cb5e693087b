package keep

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/cmd/percolator/internal/look"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// What these commands do to an instance, the sessions in cmd/percolator show.

// TestGCRunAsksForTheRetention: a run that would keep much less than the last one wants to be told
// so, and one that keeps as much does not.
func TestGCRunAsksForTheRetention(t *testing.T) {
	t.Parallel()
	now := tso.At(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	kept := func(d time.Duration) admin.CollectionBounds {
		return admin.CollectionBounds{Announced: now, Safepoint: now.Add(-d)}
	}
	for name, c := range map[string]struct {
		bounds admin.CollectionBounds
		args   []string
		want   string
	}{
		"never collected":  {admin.CollectionBounds{Announced: now}, nil, ""},
		"as much":          {kept(time.Hour), nil, ""},
		"a little less":    {kept(65 * time.Minute), nil, ""},
		"much less":        {kept(48 * time.Hour), nil, "give --retention 48h0m0s"},
		"less, as desired": {kept(48 * time.Hour), []string{"--retention", "1h"}, ""},
	} {
		var f gcRunFlags
		cmd := new(cobra.Command)
		f.keep.Add(cmd)
		if err := cmd.ParseFlags(c.args); err != nil {
			t.Fatal(err)
		}
		err := f.agree(cmd, c.bounds)
		if c.want == "" && err != nil || c.want != "" && (cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestRepairIsWrong: what an operator has to look at makes the exit status one of findings.
func TestRepairIsWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		report model.RepairReport
		index  admin.IndexReport
		want   bool
	}{
		"nothing":          {},
		"a finding":        {report: model.RepairReport{Found: 1}, want: true},
		"an audit":         {report: model.RepairReport{Audited: 1}, want: true},
		"a damaged index":  {index: admin.IndexReport{Missing: 1}, want: true},
		"only a rollback":  {report: model.RepairReport{RolledBack: 3}},
		"indexes to build": {report: model.RepairReport{Building: []string{"t.ix"}}},
	} {
		out := newRepairJSON(c.report, false)
		out.Indexes = append(out.Indexes, look.NewVerifyJSON("t", "ix", c.index))
		if out.wrong() != c.want {
			t.Errorf("%s: wrong is %t", name, out.wrong())
		}
	}
}

// TestSweepOfABuildingJournal: a sweep that has built the journal has nothing to blame it for.
func TestSweepOfABuildingJournal(t *testing.T) {
	t.Parallel()
	for building, want := range map[string]string{"sweep": "the journal is ready\n", "": "missed by the journal: 0 locks, 0 notifications, garbage in 0 rows\n"} {
		var out strings.Builder
		NewSweepJSON(model.Sweep{Building: building, Rows: 3}).Print(&out)
		if !strings.HasPrefix(out.String(), "3 rows read") || !strings.HasSuffix(out.String(), want) {
			t.Errorf("building %q: %q", building, out.String())
		}
	}
}
