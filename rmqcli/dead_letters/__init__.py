"""Dead letters: messages whose retries are used up, in the topic %DLQ%GROUP, and their way back."""
