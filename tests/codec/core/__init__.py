"""The core agrees with the declarations and with the plain readers."""
