"""Verifiable instructions: IFEval's 25 kinds, with the verdicts, quirks included, of its published grader.

Source: Zhou et al. 2023, arXiv:2311.07911, and google-research/instruction_following_eval.
"""
