package measure

import "math"

// fig7Crossover is where repeated batch passes begin to cluster sooner than observers.
type fig7Crossover struct {
	// first is the first rate, of those measured, at which the median latency of batch passes is lower, or saturation holds.
	first float64
	// rate is where the medians are equal, between first and the rate before it, if the logarithms of both go straight from one
	// to the other. Without a rate before it: first.
	rate, percent float64
	// saturation: at first observers are saturated and batch passes are not, but the time of the measurement was too short for
	// the medians to cross. rate is then what the observers clustered there, or the rate before if that is higher.
	saturation bool
}

// crossoverOf finds it among rates that ascend; nil if observers are faster at all of them.
func crossoverOf(rates []fig7Rate, documents int) *fig7Crossover {
	slower := func(r fig7Rate) float64 { return math.Log(r.observers.latency.ms(50) / r.batch.latency.ms(50)) } // above 0: batch is faster
	for i, r := range rates {
		after, c := slower(r), fig7Crossover{first: r.rate, rate: r.rate}
		switch {
		case after > 0 && i > 0:
			before := slower(rates[i-1])
			c.rate = rates[i-1].rate * math.Pow(r.rate/rates[i-1].rate, before/(before-after))
		case after > 0:
		case r.observers.saturated && !r.batch.saturated:
			c.saturation, c.rate = true, r.observers.delivered
			if i > 0 {
				c.rate = max(c.rate, rates[i-1].rate)
			}
		default:
			continue
		}
		c.percent = percentPerHour(c.rate, documents)
		return &c
	}
	return nil
}
