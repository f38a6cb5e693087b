package oracle

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/cmd/percolator/internal/golden"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/tso"
	"github.com/gopercolator/percolator/tso/tsopb"
)

// A cell of a table stays in its place, whatever a server has answered.
func TestTableIsPrintable(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	writeTable(&out, []serverStatus{{Target: "a:1", Version: "\x1b[2J\u202e", Error: "no\nsuch\tthing"}})
	if said := out.String(); text.Lines(said) != said || strings.Count(said, "\n") != 2 || !strings.Contains(said, `\x1b[2J\u202e`) {
		t.Errorf("%q", said)
	}
}

// A leader, a follower, one in trouble and one that is gone.
func sampleAnswers() []serverStatus {
	leader := &tsopb.GetStatusResponse{
		Server: "one", Version: "v1.2.3", Leading: true, Ready: true, Leader: "tso-a:7070", Epoch: 7, Record: 4711,
		HighWater: int64(tso.MaxTimestamp) / 4, Served: 12345, StoreAnsweredMs: 12,
	}
	follower := &tsopb.GetStatusResponse{Server: "two", Version: "v1.2.3", Ready: true, Leader: "tso-a:7070", Epoch: 7, Record: 4711, HighWater: leader.GetHighWater()}
	troubled := &tsopb.GetStatusResponse{Server: "three", Reason: "the store has not answered yet", StoreAnsweredMs: -1}
	return []serverStatus{
		newServerStatus("tso-a:7070", leader, nil), newServerStatus("tso-b:7070", follower, nil),
		newServerStatus("tso-c:7070", troubled, nil), newServerStatus("tso-d:7070", nil, errors.New("connection refused")),
	}
}

func TestStatusOutput(t *testing.T) {
	t.Parallel()
	var table, text bytes.Buffer
	writeTable(&table, sampleAnswers())
	golden.Compare(t, "status.table", table.String())
	if err := (&cli.Output{Format: cli.JSON}).Emit(&text, sampleAnswers(), nil); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "status.json", text.String())
}
