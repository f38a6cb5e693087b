variable "project" {
  description = "Project to try it in."
  type        = string
}

variable "region" {
  description = "Region."
  type        = string
  default     = "europe-west1"
}

variable "zone" {
  description = "Zone of everything."
  type        = string
  default     = "europe-west1-b"
}

variable "network" {
  description = "VPC network."
  type        = string
  default     = "default"
}

variable "subnetwork" {
  description = "Subnetwork of the region, with Private Google Access."
  type        = string
  default     = "default"
}

variable "schema_members" {
  description = "Members that may run percolator init and schema apply as the service account schema: you, as user:…"
  type        = list(string)
  default     = []
}

variable "oracle_image" {
  description = "Image of the oracle, with its digest; null until there is one."
  type        = string
  default     = null
}

variable "api_wait" {
  description = "Seconds that an API is given to be known once it is enabled."
  type        = number
  default     = 60
}
