package watch

import "time"

// Within is the configuration with limits that tests can reach: rows that are held, and the time
// without a batch.
func (cfg Config) Within(names int, rest time.Duration) Config {
	cfg.names, cfg.rest = names, rest
	return cfg
}

// Streams is how many streams of the journal a position knows of.
func Streams(p Position) int { return len(p.from) }
