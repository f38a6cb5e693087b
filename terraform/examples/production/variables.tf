variable "project" {
  description = "Project of the service."
  type        = string
}

variable "region" {
  description = "Region."
  type        = string
  default     = "europe-west1"
}

variable "zones" {
  description = "Zones of the oracle's servers, at least two; the Bigtable cluster is in the first."
  type        = list(string)
  default     = ["europe-west1-b", "europe-west1-c"]

  validation {
    condition     = length(distinct(var.zones)) >= 2
    error_message = "Two zones at least: when the only one is away, nothing begins and nothing commits."
  }
}

variable "kms_key" {
  description = "Key that encrypts Bigtable, Spanner, secrets, disks and images. It is made elsewhere: it outlives this configuration, and to destroy it is to destroy the data."
  type        = string

  validation {
    condition     = can(regex("^projects/[^/]+/locations/${var.region}/keyRings/[^/]+/cryptoKeys/[^/]+$", var.kms_key))
    error_message = "projects/P/locations/REGION/keyRings/R/cryptoKeys/K, in the region of the instances."
  }
}

variable "network" {
  description = "VPC network, projects/P/global/networks/N."
  type        = string
}

variable "subnetwork" {
  description = "Subnetwork of the region, with Private Google Access, projects/P/regions/R/subnetworks/S."
  type        = string
}

variable "oracle_image" {
  description = "Image of the oracle, with its digest; null at the first apply, which makes the repository for it."
  type        = string
  default     = null
}

variable "metrics_collector_image" {
  description = "Google's build of the OpenTelemetry collector, with its version; null until you have chosen one."
  type        = string
  default     = null
}

variable "on_call_email" {
  description = "Where alerts go."
  type        = string
}

variable "client_ranges" {
  description = "Ranges of GKE's pods that run workers; empty if there are none."
  type        = list(string)
  default     = []
}

variable "reader_members" {
  description = "Members that may read, group:… or serviceAccount:…, and the tables that they may read, [\"*\"] for all."
  type        = map(list(string))
  default     = {}
}

variable "operator_members" {
  description = "Members that may inspect and repair, group:…"
  type        = list(string)
  default     = []
}

variable "schema_members" {
  description = "Members that may apply schemas, as the service account schema: the pipeline, serviceAccount:…"
  type        = list(string)
  default     = []
}

variable "replicas" {
  description = "Replica clusters for the loss of the first one's region, by the end of their names, each with a key of its region: { c2 = { zone = \"europe-north1-a\", kms_key = \"…\" } }. An apply deletes a cluster that is not here."
  type        = map(object({ zone = string, kms_key = optional(string), min_nodes = optional(number), max_nodes = optional(number) }))
  default     = {}
}

variable "failed_over_to" {
  description = "The replica that took over, by its key in replicas: set before the first apply after a failover."
  type        = string
  default     = null
}

variable "api_wait" {
  description = "Seconds that an API is given to be known once it is enabled."
  type        = number
  default     = 60
}

variable "iam_wait" {
  description = "Seconds that a grant on the key is given to be known."
  type        = number
  default     = 120
}
