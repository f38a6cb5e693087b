terraform {
  # 1.9: a validation may look at other variables.
  required_version = ">= 1.9"
  required_providers {
    google = {
      source = "hashicorp/google"
      # The earliest whose documentation was seen to have edition and tags of an instance.
      version = ">= 7.38, < 9.0"
    }
  }
}
