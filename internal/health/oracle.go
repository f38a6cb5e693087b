package health

import (
	"fmt"
	"time"

	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/tso"
)

// Timestamps judges two timestamps, taken one after the other, by one that was handed out before
// and by the clock.
func Timestamps(first, second, served tso.Timestamp, now time.Time) (out []Finding) {
	const raise = "percolator tso raise --to now+1m --fence"
	if second <= first {
		out = append(out, Found(Failed, raise, "the oracle gave %d and then %d", first, second))
	}
	if first <= served {
		out = append(out, Found(Failed, raise, "the oracle gave %d, but has handed out %d before: its record went back", first, served))
	}
	if ahead := second.Time().Sub(now); ahead.Abs() > ClockTolerance {
		which := "ahead of"
		if ahead < 0 {
			which = "behind"
		}
		out = append(out, Found(Warning, "percolator tso status", "timestamps are %s %s this machine's clock", text.Age(ahead.Abs()), which))
	}
	return ElseFine(out, "timestamps increase, above %s and close to the clock", timeOf(served))
}

func timeOf(ts tso.Timestamp) string {
	if ts == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%s)", ts, ts.Time().UTC().Format(time.RFC3339))
}

// OracleServer is what a server of the oracle says of itself.
type OracleServer struct {
	Address        string
	Failed         error // it does not answer
	Leading, Ready bool
	Reason         string        // why it is not ready
	Silence        time.Duration // of its store; negative: it has never answered
}

// State is what the server does, in a word or two.
func (s OracleServer) State() string {
	switch {
	case s.Failed != nil:
		return "unreachable"
	case s.Leading:
		return "leads"
	case s.Ready:
		return "stands by"
	}
	return "not ready"
}

// Oracle judges all servers of the oracle, asked at once.
func Oracle(servers []OracleServer) (out []Finding) {
	const (
		status  = "percolator tso status"
		noSpare = "alert-percolator-oracle-no-spare"
	)
	leaders := 0
	for _, s := range servers {
		if s.Leading {
			leaders++
		}
		switch {
		case s.Failed != nil:
			out = append(out, Finding{Level: Warning, Saw: "server " + s.Address + " of the oracle does not answer", Remedy: status,
				Advice: "Is it running, and reachable from here?", Runbook: noSpare})
		case !s.Ready && !s.Leading:
			out = append(out, Finding{Level: Warning, Saw: "server " + s.Address + " of the oracle is not ready: " + s.Reason, Remedy: status,
				Advice: "Its log says more.", Runbook: noSpare})
		case s.Silence > StoreSilence:
			out = append(out, Finding{Level: Warning, Saw: "the store of the oracle's record has not answered server " + s.Address + " for " + text.Age(s.Silence), Remedy: status,
				Advice: "Without an answer it stops handing out timestamps after its lease.", Runbook: "alert-percolator-oracle-store-silent"})
		}
	}
	switch {
	case leaders > MostLeaders:
		out = append(out, Finding{Level: Failed, Saw: fmt.Sprintf("%d servers of the oracle lead: these are several oracles", leaders), Remedy: status,
			Advice: "For the same data, stop all but one at once.", Runbook: "alert-percolator-oracle-two-leaders"})
	case leaders == 0 && len(servers) > 0:
		out = append(out, Finding{Level: Failed, Saw: "no server of the oracle leads: no transaction can begin or commit", Remedy: status,
			Advice: "percolator tso status", Runbook: "alert-percolator-oracle-without-leader"})
	}
	return out
}
