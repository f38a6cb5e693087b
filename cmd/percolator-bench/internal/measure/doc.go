// Package measure has the benchmarks. Each is a type whose fields are its flags (command.go), which
// measures on an environment (environment.go) and fills a report.
package measure
