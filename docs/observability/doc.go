// Package observability holds what monitors a cluster: dashboard.json for Grafana and alerts.yaml
// for Prometheus. Its tests compare them, and docs/TELEMETRY.md, with a cluster's actual
// measurements.
package observability
